package attacks

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/test/harness"
)

// batch encodes a batch of one record. codec is 0 for none, 1 for gzip or 4 for zstd.
func batch(t *testing.T, value []byte, codec int16, producer int64, epoch int16, sequence int32) []byte {
	t.Helper()
	r := kmsg.Record{Value: value}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	records := r.AppendTo(nil)
	switch codec {
	case 1:
		var out bytes.Buffer
		w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
		require.NoError(t, err)
		_, err = w.Write(records)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		records = out.Bytes()
	case 4:
		w, err := zstd.NewWriter(nil)
		require.NoError(t, err)
		records = w.EncodeAll(records, nil)
	}
	b := kmsg.RecordBatch{
		Magic: 2, PartitionLeaderEpoch: -1, NumRecords: 1, Attributes: codec, ProducerID: producer, ProducerEpoch: epoch, FirstSequence: sequence,
		FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(), Records: records, Length: int32(49 + len(records)),
	}
	out := b.AppendTo(nil)
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// produceOf returns a Produce request of one batch for each of some partitions.
func produceOf(topic string, partitions []int32, records []byte) *kmsg.ProduceRequest {
	in := kmsg.NewPtrProduceRequest()
	in.Acks, in.TimeoutMillis = -1, 60_000
	asked := kmsg.NewProduceRequestTopic()
	asked.Topic = topic
	for _, p := range partitions {
		partition := kmsg.NewProduceRequestTopicPartition()
		partition.Partition, partition.Records = p, records
		asked.Partitions = append(asked.Partitions, partition)
	}
	in.Topics = append(in.Topics, asked)
	return in
}

func upTo(n int32) (all []int32) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// recodedTopic creates a topic whose batches the agent compresses anew.
func recodedTopic(t *testing.T, bootstrap string) {
	t.Helper()
	harness.CLI(t, bootstrap, nil, "topic", "create", "recoded", "--partitions", "100", "--topic-config", "compression.type=lz4")
}

const bombBytes = 200 << 20

func produceGzipBombs(t *testing.T, bootstrap string) string {
	t.Helper()
	return produceBombs(t, bootstrap, 1)
}

func produceZstdBombs(t *testing.T, bootstrap string) string {
	t.Helper()
	return produceBombs(t, bootstrap, 4)
}

// produceBombs has 50 connections produce batches of 200 MiB of zeros, 40 in each request.
func produceBombs(t *testing.T, bootstrap string, codec int16) string {
	t.Helper()
	bomb := batch(t, make([]byte, bombBytes), codec, -1, -1, -1)
	in := produceOf("recoded", upTo(40), bomb)
	return fmt.Sprintf("batches of %d bytes; ", len(bomb)) + each(t, bootstrap, 50, 8, false, func(int) kmsg.Request { return copyOf(in) })
}

func aheadTopic(t *testing.T, bootstrap string) {
	t.Helper()
	harness.CLI(t, bootstrap, nil, "topic", "create", "ahead", "--partitions", "100")
}

// produceAhead has 2,000 idempotent producers on 100 connections send batches far ahead of their sequences. The answers to these batches are not read.
func produceAhead(t *testing.T, bootstrap string) string {
	t.Helper()
	var all sync.WaitGroup
	var sent, refused atomic.Int64
	value := make([]byte, 10<<10)
	for c := range 100 {
		a := dial(t, bootstrap)
		var frames [][]byte
		all.Go(func() {
			for p := range 20 {
				partitions := []int32{int32((c + p) % 100)}
				init := kmsg.NewPtrInitProducerIDRequest()
				init.TransactionTimeoutMillis = 60_000
				producer := ask[*kmsg.InitProducerIDResponse](a, init, 3)
				first := ask[*kmsg.ProduceResponse](a, produceOf("ahead", partitions, batch(t, []byte("first"), 0, producer.ProducerID, producer.ProducerEpoch, 0)), 8)
				if first.Topics[0].Partitions[0].ErrorCode != 0 {
					refused.Add(1)
				}
				for i := range int32(12) {
					records := batch(t, value, 0, producer.ProducerID, producer.ProducerEpoch, 1000*(i+1))
					frames = append(frames, a.frame(produceOf("ahead", partitions, records), 8))
				}
			}
			for _, frame := range frames {
				if _, err := a.conn.Write(frame); err != nil {
					return
				}
				sent.Add(1)
			}
		})
		defer time.AfterFunc(15*time.Second, func() { _ = a.conn.Close() }).Stop()
	}
	all.Wait()
	time.Sleep(attackTime / 2) // sleeps: the attack
	return fmt.Sprintf("%d batches of 2,000 producers sent ahead, %d first batches refused", sent.Load(), refused.Load())
}

// endLarge begins 20 transactions of 20,000 partitions each and ends them at the same time. An end writes a marker to each partition, and each
// marker is an extent. Without a bound, the markers fill the extents of the virtual cluster.
func endLarge(t *testing.T, bootstrap string) string {
	t.Helper()
	const topics, partitions = 2, 10_000
	creator := dial(t, bootstrap)
	for i := range topics {
		in := kmsg.NewPtrCreateTopicsRequest()
		in.TimeoutMillis = 30_000
		c := kmsg.NewCreateTopicsRequestTopic()
		c.Topic, c.NumPartitions, c.ReplicationFactor = fmt.Sprintf("large-%d", i), partitions, 1
		in.Topics = append(in.Topics, c)
		require.Zero(t, ask[*kmsg.CreateTopicsResponse](creator, in, 5).Topics[0].ErrorCode)
	}
	var all sync.WaitGroup
	var mu sync.Mutex
	added, ended := map[int16]int{}, map[int16]int{}
	for c := range 20 {
		a := dial(t, bootstrap)
		all.Go(func() {
			init := kmsg.NewPtrInitProducerIDRequest()
			init.TransactionalID, init.TransactionTimeoutMillis = new(fmt.Sprintf("large-%d", c)), 60_000
			producer := ask[*kmsg.InitProducerIDResponse](a, init, 3)
			in := kmsg.NewPtrAddPartitionsToTxnRequest()
			in.TransactionalID, in.ProducerID, in.ProducerEpoch = *init.TransactionalID, producer.ProducerID, producer.ProducerEpoch
			for i := range topics {
				topic := kmsg.NewAddPartitionsToTxnRequestTopic()
				topic.Topic, topic.Partitions = fmt.Sprintf("large-%d", i), upTo(partitions)
				in.Topics = append(in.Topics, topic)
			}
			first := ask[*kmsg.AddPartitionsToTxnResponse](a, in, 3).Topics[0].Partitions[0].ErrorCode
			end := kmsg.NewPtrEndTxnRequest()
			end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = in.TransactionalID, in.ProducerID, in.ProducerEpoch, true
			last := ask[*kmsg.EndTxnResponse](a, end, 3).ErrorCode
			mu.Lock()
			defer mu.Unlock()
			added[first]++
			ended[last]++
		})
	}
	all.Wait()
	return fmt.Sprintf("20 transactions of %d partitions, codes of additions %v and ends %v", topics*partitions, added, ended)
}
