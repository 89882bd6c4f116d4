package sim

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/objstore"
)

// TestRead_DamagedAndMissingObjects: bytes damaged on the way, and objects that the store does not find, concern the
// partitions in them alone, and only for as long as they are so.
func TestRead_DamagedAndMissingObjects(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 11})
	c.createTopic("t", 2)
	w := c.dialWire(c.agents[0])
	var keys []string
	var want [2][]stored
	for p := range int32(2) { // one bundle each
		sent := batch(nobody, 0, strings.Repeat("x", 60_000), string('0'+p))
		require.Zero(t, produced(t, ask[*kmsg.ProduceResponse](w, produceRequest("t", map[int32][]byte{p: sent}), patience), p).ErrorCode)
		want[p] = []stored{{0, string(sent[16:])}}
		page, err := c.audit.List(t.Context(), bundlePrefix, "", objstore.MaxKeys)
		require.NoError(t, err)
		for _, o := range page {
			if len(keys) == 0 || o.Key != keys[0] {
				keys = append(keys, o.Key)
			}
		}
	}
	require.Len(t, keys, 2)
	read := func(w *wire, codes ...int16) {
		t.Helper()
		for p, code := range codes {
			got := fetched(t, w.fetch("t", map[int32]int64{int32(p): 0}), int32(p))
			require.Equal(t, code, got.ErrorCode, "partition %d", p)
			if code == 0 {
				require.Equal(t, want[p], batches(t, got.RecordBatches), "partition %d", p)
			} else {
				require.Empty(t, got.RecordBatches)
			}
		}
	}
	fresh := func() *wire { return c.dialWire(c.startAgent()) }
	whole := c.dialWire(c.agents[0]) // has it in memory

	cold := fresh()
	damaged := c.objects.MustAdd("get key=" + keys[0] + " corrupt")
	read(cold, kerr.CorruptMessage.Code, 0)
	read(whole, 0, 0)
	require.Positive(t, c.agents[len(c.agents)-1].metric("freshet_cache_corrupt_extents_total"))
	c.objects.Remove(damaged)
	read(cold, 0, 0)

	cold = fresh()
	once := c.objects.MustAdd("get key=" + keys[0] + " times=1 not-found")
	read(cold, 0, 0) // the look-up that follows finds it
	require.Equal(t, 1, once.Hits())

	cold = fresh()
	gone := c.objects.MustAdd("get key=" + keys[1] + " not-found")
	resp := cold.fetch("t", map[int32]int64{1: 0})
	require.Equal(t, kerr.KafkaStorageError.Code, fetched(t, resp, 1).ErrorCode, "never out of range, never empty")
	require.GreaterOrEqual(t, gone.Hits(), 2)
	resp = cold.fetch("t", map[int32]int64{0: 0})
	require.Equal(t, want[0], batches(t, fetched(t, resp, 0).RecordBatches))
	c.objects.Remove(gone)
	c.await("the object that is there again", func() bool {
		return fetched(t, cold.fetch("t", map[int32]int64{1: 0}), 1).ErrorCode == 0
	})
	read(cold, 0, 0)

	cold = fresh()
	c.objects.MustAdd("get key~bundles times=2 throttle")
	c.objects.MustAdd("get key~bundles times=2 truncate")
	read(cold, 0, 0)
}

// TestRead_LostObject: somebody deletes the object of a live bundle. A consumer gets all records of other partitions, those
// too that come later, and its own before the loss. The store is asked for the object now and then only. Once it is back,
// the consumer gets everything, in order.
func TestRead_LostObject(t *testing.T) {
	t.Parallel()
	const each = 10
	c := newCluster(t, options{seed: 12})
	c.createTopic("t", 2)
	producer := c.pinned(c.agents[0], kgo.RecordPartitioner(kgo.ManualPartitioner()))
	defer producer.Close()
	keys := map[string]bool{}
	produce := func(p int32, i int) (key string) { // one bundle each
		t.Helper()
		r := &kgo.Record{Topic: "t", Partition: p, Value: fmt.Append(nil, i)}
		require.NoError(t, producer.ProduceSync(t.Context(), r).FirstErr())
		page, err := c.audit.List(t.Context(), bundlePrefix, "", objstore.MaxKeys)
		require.NoError(t, err)
		for _, o := range page {
			if !keys[o.Key] {
				key, keys[o.Key] = o.Key, true
			}
		}
		return key
	}
	var lost string
	for i := range each {
		produce(1, i)
		if key := produce(0, i); i == each/2 {
			lost = key
		}
	}
	body, err := c.audit.Bucket.Get(t.Context(), lost, 0, -1)
	require.NoError(t, err)
	raw, err := io.ReadAll(body)
	require.NoError(t, err)
	require.NoError(t, c.audit.Delete(t.Context(), []string{lost}))
	asked := c.objects.MustAdd("get key=" + lost + " delay=1ms")

	cold := c.startAgent()
	c.awaitMembers()
	consumer := c.pinned(cold, kgo.ConsumeTopics("t"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer consumer.Close()
	var got [2]int
	consume := func(want [2]int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for got != want {
			fetches := consumer.PollFetches(ctx)
			require.NoError(t, ctx.Err(), "got %v of %v", got, want)
			fetches.EachRecord(func(r *kgo.Record) {
				require.Equal(t, fmt.Sprint(got[r.Partition]), string(r.Value), "partition %d", r.Partition)
				got[r.Partition]++
			})
		}
	}
	consume([2]int{each / 2, each})
	c.await("the loss", func() bool { return cold.metric("freshet_fetch_lost_extents") == 1 })
	before := asked.Hits()
	for i := range 2 * each {
		produce(1, each+i)
		consume([2]int{each / 2, each + i + 1})
	}
	require.LessOrEqual(t, asked.Hits()-before, 3, "not with each fetch")

	require.NoError(t, c.audit.Bucket.Put(t.Context(), lost, objstore.Body{
		Buffers: [][]byte{raw}, Size: int64(len(raw)), CRC32C: crc32.Checksum(raw, objstore.Castagnoli),
	}))
	consume([2]int{each, 3 * each})
	require.Zero(t, cold.metric("freshet_fetch_lost_extents"))
}
