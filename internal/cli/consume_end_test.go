package cli

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/job/clean/cleantest"
	"github.com/freshet-io/freshet/kafkaproto"
)

// thinned is a batch of n records at base, which once had more behind them, up to last.
func thinned(t *testing.T, base, last int64, n int) []byte {
	t.Helper()
	b := cleantest.Batch{}
	for range last - base + 1 {
		b.Records = append(b.Records, cleantest.Record{Value: []byte("v")})
	}
	batch := b.Make(t)
	batch.SetBaseOffset(base)
	first := cleantest.Batch{Records: b.Records[:n]}
	short := first.Make(t)
	p := append(batch[:kafkaproto.BatchOverhead:kafkaproto.BatchOverhead], short[kafkaproto.BatchOverhead:]...)
	return kafkaproto.SealThinned(p, kafkaproto.Thinned{Records: int32(n)})
}

func TestSkipEmpty(t *testing.T) {
	stored := kafkaproto.AppendEmptyBatches(thinned(t, 0, 4, 2), 5, 9)
	for _, c := range []struct {
		from, next int64
		empty      bool
	}{
		{0, 0, false}, {1, 1, false}, {2, 10, true}, {7, 10, true},
	} {
		next, empty := skipEmpty(stored, c.from, 10)
		require.Equal(t, c.next, next, "from %d", c.from)
		require.Equal(t, c.empty, empty, "from %d", c.from)
	}
	next, empty := skipEmpty(stored, 1, 1)
	require.True(t, empty, "what lies beyond is not waited for")
	require.EqualValues(t, 10, next)
	next, empty = skipEmpty(append(stored, thinned(t, 10, 10, 1)[:65]...), 2, 20)
	require.True(t, empty)
	require.EqualValues(t, 10, next, "a batch that is cut says nothing")
	next, _ = skipEmpty(nil, 3, 5)
	require.EqualValues(t, 3, next)
}

// TestConsume_EndsWhereRecordsAreGone: the last offsets before the end have no records, by compaction.
func TestConsume_EndsWhereRecordsAreGone(t *testing.T) {
	stored := kafkaproto.AppendEmptyBatches(thinned(t, 0, 4, 2), 5, 9)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	require.NoError(t, err)
	defer cluster.Close()
	cluster.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return offsetsOf(req.(*kmsg.ListOffsetsRequest), 0, 10), nil, true
	})
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		return fetchOf(req.(*kmsg.FetchRequest), stored, 10), nil, true
	})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, committed := range []bool{false, true} {
		var out bytes.Buffer
		config := ConsumeConfig{
			ClientConfig: ClientConfig{Bootstrap: cluster.ListenAddrs()}, Topic: "t", From: "earliest", ExitAtEnd: true,
			Format: "%o\n", ReadCommitted: committed,
		}
		require.NoError(t, Consume(ctx, config, Streams{Out: &out, Err: &out}))
		require.NoError(t, ctx.Err(), "it ends by itself")
		require.Equal(t, "0\n1\n", out.String())
	}
}

func offsetsOf(req *kmsg.ListOffsetsRequest, start, end int64) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, topic := range req.Topics {
		answer := kmsg.NewListOffsetsResponseTopic()
		answer.Topic = topic.Topic
		for _, p := range topic.Partitions {
			a := kmsg.NewListOffsetsResponseTopicPartition()
			a.Partition, a.Offset = p.Partition, end
			if p.Timestamp == -2 {
				a.Offset = start
			}
			answer.Partitions = append(answer.Partitions, a)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}

func fetchOf(req *kmsg.FetchRequest, stored []byte, end int64) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.FetchResponse)
	for _, topic := range req.Topics {
		answer := kmsg.NewFetchResponseTopic()
		answer.Topic, answer.TopicID = topic.Topic, topic.TopicID
		for _, p := range topic.Partitions {
			a := kmsg.NewFetchResponseTopicPartition()
			a.Partition, a.HighWatermark, a.LastStableOffset, a.LogStartOffset = p.Partition, end, end, 0
			if p.FetchOffset < end {
				a.RecordBatches = stored
			}
			answer.Partitions = append(answer.Partitions, a)
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp
}

// TestConsume_ReadsOnlyPartitionsWithRecords: a fetch of partitions at their ends would hold up the others of the broker.
func TestConsume_ReadsOnlyPartitionsWithRecords(t *testing.T) {
	const partitions, full = 50, 7
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(partitions, "t"))
	require.NoError(t, err)
	defer cluster.Close()
	client, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	defer client.Close()
	for p := range int32(full) {
		require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Partition: 3 * p, Value: []byte("v")}).FirstErr())
	}
	asked, waits := make(chan int32, 10_000), make(chan int32, 10_000)
	cluster.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		waits <- req.(*kmsg.FetchRequest).MaxWaitMillis
		for _, topic := range req.(*kmsg.FetchRequest).Topics {
			for _, p := range topic.Partitions {
				asked <- p.Partition
			}
		}
		return nil, nil, false
	})
	var out bytes.Buffer
	require.NoError(t, Consume(t.Context(), ConsumeConfig{
		ClientConfig: ClientConfig{Bootstrap: cluster.ListenAddrs()}, Topic: "t", From: "earliest", ExitAtEnd: true, Format: "%p\n",
	}, Streams{Out: &out, Err: &out}))
	require.Equal(t, full, bytes.Count(out.Bytes(), []byte("\n")))
	for range len(asked) {
		p := <-asked
		require.Zero(t, p%3, "partition %d has no records", p)
	}
	require.EqualValues(t, endMaxWait.Milliseconds(), <-waits)
}
