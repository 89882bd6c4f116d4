package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
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
	read(cold, 0, 0)

	cold = fresh()
	c.objects.MustAdd("get key~bundles times=2 throttle")
	c.objects.MustAdd("get key~bundles times=2 truncate")
	read(cold, 0, 0)
}
