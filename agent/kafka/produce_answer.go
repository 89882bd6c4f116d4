package kafka

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/recode"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/kafkaproto"
)

// answer makes the response: one result per partition, in the request's order.
func (r *produceRequest) answer(results []writer.Result) *kmsg.ProduceResponse {
	out := kmsg.NewPtrProduceResponse()
	out.Topics = make([]kmsg.ProduceResponseTopic, 0, len(r.in.Topics))
	leaders := leaderHints{request: r, out: out}
	part := 0
	for i := range r.in.Topics {
		t := &r.in.Topics[i]
		a := kmsg.NewProduceResponseTopic()
		a.Topic, a.TopicID = t.Topic, t.TopicID
		a.Partitions = make([]kmsg.ProduceResponseTopicPartition, 0, len(t.Partitions))
		for k := range t.Partitions {
			p := r.parts[part].answer(t.Partitions[k].Partition, results)
			if p.ErrorCode == kerr.NotLeaderForPartition.Code {
				leaders.add(&p, &r.parts[part])
			}
			if p.ErrorCode == kerr.InvalidTxnState.Code {
				p.ErrorCode = r.transactionCode(&r.parts[part])
			}
			if r.in.Version >= topicIDVersion && results != nil && noPartition(&r.parts[part], results) {
				p.ErrorCode = kerr.UnknownTopicID.Code
			}
			a.Partitions = append(a.Partitions, p)
			part++
		}
		out.Topics = append(out.Topics, a)
	}
	return out
}

// noPartition tells whether the topic went away between validation and commit.
func noPartition(p *producePart, results []writer.Result) bool {
	return p.batch >= 0 && errors.Is(resultError(&results[p.batch]), kerr.UnknownTopicOrPartition)
}

// answer is the response of one partition. An offset is the true one or -1 (I2).
func (p *producePart) answer(partition int32, results []writer.Result) kmsg.ProduceResponseTopicPartition {
	a := kmsg.NewProduceResponseTopicPartition()
	a.Partition, a.BaseOffset, a.LogAppendTime, a.LogStartOffset = partition, -1, -1, -1
	if err := p.outcome(results); err != nil {
		describe(&a, err)
		return a
	}
	r := &results[p.batch]
	a.BaseOffset, a.LogStartOffset, a.LogAppendTime = r.Base, r.LogStart, p.appendTime
	return a
}

// describe fills in the error, its message and the records it is about.
func describe(a *kmsg.ProduceResponseTopicPartition, err error) {
	a.ErrorCode = ErrorCode(err)
	var batch *kafkaproto.BatchError
	var records *recode.RecordsError
	switch {
	case errors.As(err, &records):
		a.ErrorMessage = kmsg.StringPtr(records.Error())
		for _, bad := range records.Records {
			addErrorRecord(a, bad.Index, bad.Message)
		}
	case errors.As(err, &batch):
		a.ErrorMessage = kmsg.StringPtr(batch.Detail)
		if batch.Record >= 0 {
			addErrorRecord(a, batch.Record, batch.Detail)
		}
	}
}

func addErrorRecord(a *kmsg.ProduceResponseTopicPartition, index int32, message string) {
	e := kmsg.NewProduceResponseTopicPartitionErrorRecord()
	e.RelativeOffset, e.ErrorMessage = index, &message
	a.ErrorRecords = append(a.ErrorRecords, e)
}

// leaderHintVersion is the first Produce version whose clients can be told where a partition's leader is (KIP-951).
const leaderHintVersion = 10

// leaderHints tell a client where to go instead, from version 10 on (KIP-951): to the agent that Metadata shows now.
type leaderHints struct {
	request  *produceRequest
	out      *kmsg.ProduceResponse
	snapshot *view.Snapshot
	zone     *zoneView
	named    map[int32]bool
}

func (l *leaderHints) add(a *kmsg.ProduceResponseTopicPartition, p *producePart) {
	r := l.request
	if r.in.Version < leaderHintVersion || p.topic == nil || r.api.cfg.Views == nil {
		return
	}
	if l.zone == nil {
		l.snapshot = r.api.cfg.Catalogue.Load()
		l.zone = r.api.cfg.Views.of(l.snapshot, r.req)
		l.named = make(map[int32]bool)
	}
	topic, ok := l.snapshot.TopicByID(p.topic.ID)
	if !ok {
		return
	}
	shown, ok := l.zone.leader(topic, a.Partition)
	if !ok {
		return
	}
	a.CurrentLeader.LeaderID, a.CurrentLeader.LeaderEpoch = shown.node, shown.epoch
	if l.named[shown.node] {
		return
	}
	if b := l.zone.broker(shown.node); b != nil {
		e := kmsg.NewProduceResponseBroker()
		e.NodeID, e.Host, e.Port, e.Rack = b.NodeID, b.Host, b.Port, b.Rack
		l.out.Brokers = append(l.out.Brokers, e)
		l.named[shown.node] = true
	}
}
