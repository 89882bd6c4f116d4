package cache

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

func (l *lane) usedBytes() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.used
}

// Units that grow past what was reserved for them wait for each other only behind the oldest, and give everything back.
func TestLane_OnlyTheOldestExceedsTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLane(8, 4<<20)
		first, err := l.acquireFor(t.Context(), 0, WholeUnit)
		require.NoError(t, err)
		second, err := l.acquireFor(t.Context(), 0, WholeUnit)
		require.NoError(t, err)
		require.NoError(t, first.grow(t.Context(), 2<<20))

		grown := atomic.Bool{}
		go func() {
			_ = second.grow(t.Context(), 3<<20)
			grown.Store(true)
		}()
		synctest.Wait()
		require.False(t, grown.Load(), "the second waits")
		require.NoError(t, first.grow(t.Context(), 8<<20), "the first goes on")
		require.Greater(t, l.usedBytes(), l.room)

		begun := atomic.Bool{}
		go func() {
			if g, err := l.acquireFor(t.Context(), 0, WholeUnit); err == nil {
				begun.Store(true)
				g.release(0)
			}
		}()
		synctest.Wait()
		require.False(t, begun.Load(), "nothing begins over the bound")
		require.False(t, l.idle(WholeUnit))

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = l.acquireFor(ctx, 0, WholeUnit)
		require.ErrorIs(t, err, context.DeadlineExceeded)

		first.release(8 << 20)
		synctest.Wait()
		require.True(t, grown.Load())
		second.release(3 << 20)
		synctest.Wait()
		require.True(t, begun.Load())
		require.Zero(t, l.usedBytes())
		require.True(t, l.idle(WholeUnit))
	})
}

// Many small bundles are read side by side however little memory there is for what is being read.
func TestCache_SmallBundlesOverlap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := setup(t, Config{CatchUp: Bounds{Bytes: 16 << 20, Gets: 16}})
		b.before = func(context.Context, int32) error { pass(50 * time.Millisecond); return nil }
		var exts []extent.Extent
		for i := range 64 {
			bundle := cachetest.NewBundle(id.Bundle(i + 1))
			p := bundle.Add(cachetest.Batch(value(1000), 1))
			exts = append(exts, bundle.Extent(0, p))
			bundle.Store(t, b)
		}
		began := time.Now()
		for i := range exts {
			c.launch(unitKeys(&exts[i]), account{class: CatchUp})
		}
		for i := range exts {
			got, err := c.Read(t.Context(), &exts[i], CatchUp)
			require.NoError(t, err)
			got.Release()
		}
		require.LessOrEqual(t, time.Since(began), 64/8*50*time.Millisecond)
		require.Equal(t, int32(64), b.gets.Load())
		synctest.Wait()
		require.Zero(t, c.lanes[CatchUp].usedBytes())
	})
}

// A GET whose unit came meanwhile on another class's account changes no account.
func TestCache_UnitThatCameMeanwhileIsCountedOnce(t *testing.T) {
	c, b := setup(t, Config{})
	bundle := cachetest.NewBundle(1)
	p := bundle.Add(cachetest.Batch(value(1000), 1))
	bundle.Store(t, b)
	e := bundle.Extent(0, p)
	got, err := c.Read(t.Context(), &e, Live)
	require.NoError(t, err)
	got.Release()
	before := c.store.mu.bytes
	u, err := c.join(unitKeys(&e), account{class: CatchUp}, true)[0].wait(t.Context(), c)
	require.NoError(t, err)
	u.release()
	require.Equal(t, int32(1), b.gets.Load())
	require.Equal(t, before, c.store.mu.bytes)
	require.Equal(t, int32(1), c.store.mu.units[unitKey{bundle: 1}].refs.Load())
}
