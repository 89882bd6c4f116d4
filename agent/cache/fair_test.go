package cache

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// get takes a place for a while, as a GET of a unit does.
func get(ctx context.Context, t *testing.T, l *lane, reader uint64) {
	t.Helper()
	g, err := l.acquireFor(ctx, reader, PartUnit)
	if err != nil {
		return
	}
	pass(100 * time.Millisecond)
	g.release(PartUnit)
}

// A reader that wants a thousand units at once does not delay one that comes later and wants one after the other: no
// reader has all places, and a reader that waits gets one after a turn of each other at most.
func TestLane_ReadersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLane(4, 64<<20)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var first sync.WaitGroup
		for range 1000 {
			first.Go(func() { get(ctx, t, l, 1) })
		}
		synctest.Wait()
		require.Len(t, l.mu.active, 2, "no reader has more than half of the places")

		began := time.Now()
		for range 50 {
			get(ctx, t, l, 2)
		}
		require.Equal(t, 50*100*time.Millisecond, time.Since(began), "as if it were alone")

		// Readers that want as much have as much, however many of each one's GETs wait.
		counts := make([]int, 5)
		var mu sync.Mutex
		var others sync.WaitGroup
		for reader := uint64(2); reader < 5; reader++ {
			for range 200 {
				others.Go(func() {
					get(ctx, t, l, reader)
					mu.Lock()
					counts[reader]++
					mu.Unlock()
				})
			}
		}
		pass(10 * time.Second)
		mu.Lock()
		had := slices.Clone(counts)
		mu.Unlock()
		for reader := 2; reader < 5; reader++ {
			require.InDelta(t, 100, had[reader], 2, "a quarter of 400 places in 10 s")
		}

		began = time.Now()
		get(ctx, t, l, 9)
		require.LessOrEqual(t, time.Since(began), 3*100*time.Millisecond, "four places, four others: until places come free, a turn of each, its own")
		cancel()
		first.Wait()
		others.Wait()
		require.Empty(t, l.mu.taken)
		require.Empty(t, l.mu.waiting)
		require.Zero(t, len(l.mu.active)+int(l.usedBytes()))
	})
}

// One consumer that lags in a thousand partitions and one that reads a single partition, over the same store.
func TestCache_OneReaderStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := setup(t, Config{CatchUp: Bounds{Bytes: 48 << 20, Gets: 4}})
		b.before = func(context.Context, int32) error { pass(100 * time.Millisecond); return nil }
		var exts []extent.Extent
		for i := range 300 {
			s := cachetest.Section{Partition: partition, Batches: [][]byte{cachetest.Batch(value(1000), 1)}}
			exts = append(exts, cachetest.Compact(t, b, id.Bundle(i+1), 1, s)[0][0])
		}
		ctx, cancel := context.WithCancel(t.Context())
		var greedy sync.WaitGroup
		for i := range 200 {
			greedy.Go(func() {
				if got, err := c.ReadPart(ctx, Part{Extent: &exts[i], Reader: 1}, CatchUp); err == nil {
					got.Release()
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		for i := 200; i < 210; i++ {
			got, err := c.ReadPart(t.Context(), Part{Extent: &exts[i], Reader: 2}, CatchUp)
			require.NoError(t, err)
			got.Release()
		}
		require.LessOrEqual(t, time.Since(began), 10*200*time.Millisecond)
		cancel()
		greedy.Wait()
	})
}

// What one reader reads ahead and does not use takes its part of the memory alone.
func TestStore_ReadAheadIsSharedEvenly(t *testing.T) {
	s := newStore(1<<20, 64<<20, newMetrics(prometheus.NewRegistry(), func() float64 { return 0 }))
	put := func(reader uint64, n int) {
		u := &unit{key: unitKey{bundle: id.Bundle(n), part: true}, size: PartUnit, reader: reader}
		u.retain()
		s.put(u, CatchUp, true)
	}
	for i := range 7 {
		put(1, i)
	}
	ok, _ := s.roomAhead(CatchUp, 1, PartUnit)
	require.True(t, ok, "alone, up to half")
	put(2, 7)
	ok, freed := s.roomAhead(CatchUp, 1, PartUnit)
	require.False(t, ok)
	s.get(unitKey{bundle: 0, part: true}).release()
	<-freed
	ok, _ = s.roomAhead(CatchUp, 2, PartUnit)
	require.True(t, ok, "the other has a quarter")
	ok, _ = s.roomAhead(CatchUp, 1, PartUnit)
	require.False(t, ok, "and leaves no more")
}
