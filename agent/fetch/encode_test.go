package fetch

import (
	"bytes"
	"fmt"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

func sampleAnswer(version int16, readCommitted bool) Answer {
	part := func(topic byte, name string, partition int32, code int16, records ...string) PartitionAnswer {
		r := &Result{Marks: view.Watermarks{LogStart: 3, HighWatermark: 1 << 40, LastStable: 99}}
		for _, s := range records {
			r.Records = append(r.Records, []byte(s))
			r.Size += len(s)
		}
		return PartitionAnswer{TopicID: id.Topic{topic}, Topic: name, Partition: partition, ErrorCode: code, Result: r}
	}
	return Answer{Version: version, ThrottleMs: 100, ErrorCode: 70, SessionID: 12345, ReadCommitted: readCommitted, Partitions: []PartitionAnswer{
		part(1, "a", 0, 0),
		part(1, "a", 1, 0, "some", string(make([]byte, 200)), "records"),
		part(2, "longer name", 7, 1),
		part(3, "c", 2, 0, "x"),
		part(3, "c", 3, 0, "y"),
		part(1, "a", 2, 0, "again"),
		part(1, "a", 3, 0, "aborted").with(Result{Aborted: []extent.Aborted{{ProducerID: 1 << 40, First: 5, Last: 9}, {ProducerID: 7, First: 1, Last: 10}}}),
		part(1, "a", 4, 3).with(Result{Err: kerr.UnknownTopicOrPartition, Refused: true}),
		part(1, "a", 5, 1).with(Result{Err: kerr.OffsetOutOfRange}),
		part(1, "a", 6, 6).with(Result{Err: kerr.NotLeaderForPartition, Refused: true}).at(&Leader{NodeID: 9, Epoch: 300}),
		part(1, "a", 7, 0, "served here"),
	}, Endpoints: []Endpoint{
		{NodeID: 9, Host: "some.host.example", Port: 9092, Rack: kmsg.StringPtr("zone-b")}, {NodeID: 10, Host: "h", Port: 1},
	}}
}

// at names another leader.
func (p PartitionAnswer) at(l *Leader) PartitionAnswer {
	p.Leader = l
	return p
}

// with sets what bears on the list of aborted transactions.
func (p PartitionAnswer) with(r Result) PartitionAnswer {
	p.Err, p.Refused, p.Aborted = r.Err, r.Refused, r.Aborted
	return p
}

func viaKmsg(a *Answer) []byte {
	out := kmsg.FetchResponse{Version: a.Version, ThrottleMillis: a.ThrottleMs, ErrorCode: a.ErrorCode, SessionID: a.SessionID}
	for _, e := range a.Endpoints {
		if a.Version >= 16 {
			out.Brokers = append(out.Brokers, kmsg.FetchResponseBroker{NodeID: e.NodeID, Host: e.Host, Port: e.Port, Rack: e.Rack})
		}
	}
	for i, p := range a.Partitions {
		if i == 0 || a.Partitions[i-1].Topic != p.Topic {
			t := kmsg.NewFetchResponseTopic()
			t.Topic, t.TopicID = p.Topic, p.TopicID
			out.Topics = append(out.Topics, t)
		}
		q := kmsg.NewFetchResponseTopicPartition()
		q.Partition, q.ErrorCode = p.Partition, p.ErrorCode
		q.HighWatermark, q.LastStableOffset, q.LogStartOffset = p.Marks.HighWatermark, p.Marks.LastStable, p.Marks.LogStart
		if a.ReadCommitted && p.Err == nil || p.Refused {
			q.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{}
		}
		if a.ReadCommitted {
			for _, t := range p.Aborted {
				m := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
				m.ProducerID, m.FirstOffset = t.ProducerID, t.First
				q.AbortedTransactions = append(q.AbortedTransactions, m)
			}
		}
		if p.Leader != nil && a.Version >= 16 {
			q.CurrentLeader.LeaderID, q.CurrentLeader.LeaderEpoch = p.Leader.NodeID, p.Leader.Epoch
		}
		q.RecordBatches = bytes.Join(p.Records, nil)
		if q.RecordBatches == nil {
			q.RecordBatches = []byte{}
		}
		t := &out.Topics[len(out.Topics)-1]
		t.Partitions = append(t.Partitions, q)
	}
	return out.AppendTo(nil)
}

func join(head []byte, tail net.Buffers) []byte {
	return append(bytes.Clone(head), bytes.Join(tail, nil)...)
}

func TestAnswer_EncodeEqualsKmsg(t *testing.T) {
	for version := int16(4); version <= 18; version++ {
		for _, committed := range []bool{false, true} {
			t.Run(fmt.Sprint(version, committed), func(t *testing.T) {
				full := sampleAnswer(version, committed)
				for n := range len(full.Partitions) + 1 {
					a := full
					a.Partitions = full.Partitions[:n]
					require.Equal(t, viaKmsg(&a), join(a.Encode()), "%d partitions", n)
				}
			})
		}
	}
}

func TestAnswer_EncodeCopiesNoRecords(t *testing.T) {
	a := sampleAnswer(12, false)
	_, tail := a.Encode()
	require.Same(t, &a.Partitions[1].Records[0][0], &tail[0][0])
}

func BenchmarkAnswer_Encode(b *testing.B) {
	a := Answer{Version: 17}
	records := net.Buffers{make([]byte, 100_000)}
	for i := range 32 {
		a.Partitions = append(a.Partitions, PartitionAnswer{
			TopicID: id.Topic{1}, Partition: int32(i), Result: &Result{Records: records, Size: 100_000},
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		a.Encode()
	}
}
