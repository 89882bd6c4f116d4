package metadata

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
)

// TestCommitBundle_LargestTimestamp commits a batch with timestamp 2^63-1 beside others: it is found by
// time, and after a restore.
func TestCommitBundle_LargestTimestamp(t *testing.T) {
	w := newProducersWorld(t, producerBounds{MaxProducers, MaxResting})
	batches := func(timestamps ...int64) (list []commit.Batch) {
		for _, ts := range timestamps {
			list = append(list, commit.Batch{Records: 1, Bytes: 100, MaxTimestamp: ts, ProducerID: commit.NoProducer})
		}
		return list
	}
	extreme := commitOf(1, 1, 0, section{"t", 0, batches(5)}, section{"t", 1, batches(7, math.MaxInt64)}, section{"t", 2, batches(9)})
	require.NoError(t, w.apply(extreme)[0].Err)
	w.apply(commitOf(1, 2, 1, section{"t", 1, batches(8)}))
	for _, s := range []*machine{w.s, restore(t, w.s)} {
		tp := partitionID(t, "t/1")
		x, ok := s.MaxTimestampExtent(tp, 0, math.MaxInt64)
		require.True(t, ok)
		require.Equal(t, int64(math.MaxInt64), x.MaxTimestamp)
		x, ok = s.FindTimestamp(tp, 0, math.MaxInt64)
		require.True(t, ok)
		require.Zero(t, x.Base)
		_, ok = s.FindTimestamp(partitionID(t, "t/0"), 0, math.MaxInt64)
		require.False(t, ok)
		require.Zero(t, s.RetainedFrom(tp, Retention{SinceMs: math.MaxInt64, Bytes: KeepForever}))
	}
	require.Equal(t, w.s.Hash(), restore(t, w.s).Hash())
}
