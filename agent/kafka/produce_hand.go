package kafka

import (
	"context"
	"errors"
	"fmt"

	"github.com/freshet-io/freshet/agent/recode"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/id"
)

// hand opens the batches that have to be and gives all that are valid to the writer: together, but for each batch that is
// compressed anew. It may wait for memory, so what is at hand is handed over before, and it is at once.
func (r *produceRequest) hand(ctx context.Context) {
	r.batches = make([]writer.Batch, 0, len(r.parts))
	for i := range r.parts {
		p := &r.parts[i]
		if p.err != nil {
			continue
		}
		if err := r.open(ctx, p); err != nil {
			p.refuse(err)
		}
	}
	r.handOver(ctx)
	if len(r.handed) == 0 {
		r.handed = append(r.handed, writer.NewProduce(0, nil))
	}
	if len(r.handed) == 1 {
		r.req.Answered = r.handed[0].Done()
	}
}

// open adds the batch to store to those at hand, or hands it over if it was compressed anew.
func (r *produceRequest) open(ctx context.Context, p *producePart) error {
	rules := recodeRules(p.topic, p.rules, p.partition)
	if !rules.Needs(p.sent.Codec()) {
		r.add(p, p.sent)
		return nil
	}
	recompresses := rules.Recompresses(p.sent.Codec())
	if recompresses {
		r.handOver(ctx)
	}
	err := r.api.cfg.Recoder.Apply(ctx, p.sent, &rules, recode.MaxRecordErrors-r.recordErrors, func(b kafkaproto.RecordBatch) {
		r.add(p, b)
		if recompresses {
			r.handOver(ctx)
		}
	})
	var refused *recode.RecordsError
	if errors.As(err, &refused) {
		r.recordErrors += len(refused.Records)
	}
	return err
}

// add adds a batch to those at hand.
func (r *produceRequest) add(p *producePart, b kafkaproto.RecordBatch) {
	if p.rules.TimestampType == topicconfig.LogAppendTime {
		b.StampLogAppendTime(r.now)
		p.appendTime = r.now
	}
	p.batch = r.added
	r.added++
	r.batches = append(r.batches, r.batchOf(p, b))
}

// handOver gives the batches at hand, if there are any, to the writer, which copies them.
func (r *produceRequest) handOver(ctx context.Context) {
	if len(r.batches) == 0 {
		return
	}
	r.handed = append(r.handed, r.api.cfg.Writer.Add(ctx, r.batches))
	clear(r.batches)
	r.batches = r.batches[:0]
}

// forget gives the frame's memory back: the writer has copied the records.
func (r *produceRequest) forget() {
	for i := range r.in.Topics {
		for k := range r.in.Topics[i].Partitions {
			r.in.Topics[i].Partitions[k].Records = nil
		}
	}
	for i := range r.parts {
		r.parts[i].sent = nil
	}
	r.batches = nil
	r.req.Release()
}

// results waits for the batches' results, at most until ctx ends.
func (r *produceRequest) results(ctx context.Context) []writer.Result {
	if len(r.handed) == 1 {
		return r.handed[0].Wait(ctx)
	}
	results := make([]writer.Result, 0, r.added)
	for _, p := range r.handed {
		results = append(results, p.Wait(ctx)...)
	}
	return results
}

// recodeRules are what a topic's configs ask of the inside of its batches.
func recodeRules(topic *view.Topic, v *topicconfig.Values, partition int32) recode.Rules {
	rules := recode.Rules{Keys: v.Compact, MaxRecordBytes: v.MaxDecompressed, MaxBytes: v.MaxMessageBytes}
	if codec, ok := kafkaproto.ParseCodec(v.CompressionType); ok {
		rules.Compress, rules.Codec, rules.Level = true, codec, v.CompressionLevel
	}
	if rules.Keys {
		rules.Partition = fmt.Sprintf("%s-%d", topic.Name, partition)
	}
	return rules
}

// batchOf describes a valid batch to the writer and the sequencer.
func (r *produceRequest) batchOf(p *producePart, b kafkaproto.RecordBatch) writer.Batch {
	batch := writer.BatchOf(id.TopicPartition{Topic: p.topic.ID, Partition: p.partition}, b)
	if p.rules.Latency == "fast" {
		batch.Latency = writer.Fast
	}
	if p.batch == 0 && r.in.Acks != 0 { // a client with acks 0 waits for nothing
		batch.Window = r.req.Client
	}
	if b.Transactional() {
		r.transaction(&batch)
	}
	return batch
}
