package cache

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// bundles stores small bundles and returns an extent of each.
func bundles(t *testing.T, b *bucket, n int) (extents []extent.Extent) {
	t.Helper()
	for i := range n {
		bundle := cachetest.NewBundle(id.Bundle(i + 1))
		extents = append(extents, bundle.Extent(0, bundle.Add(cachetest.Batch(value(100), 1))))
		bundle.Store(t, b)
	}
	return extents
}

// TestCache_GetsAreBounded asks for more bundles than each class of readers may get at once.
func TestCache_GetsAreBounded(t *testing.T) {
	for class, bound := range map[Class]int32{Live: 64, CatchUp: 16} {
		synctest.Test(t, func(t *testing.T) {
			c, b := setup(t, Config{Live: Bounds{Bytes: 1 << 30}, CatchUp: Bounds{Bytes: 1 << 30}})
			held := make(chan struct{})
			t.Cleanup(func() { close(held) })
			b.before = func(context.Context, int32) error { <-held; return nil }
			extents := bundles(t, b, 100)
			for i := range extents {
				c.launch(unitKeys(&extents[i]), account{class: class})
			}
			synctest.Wait()
			require.Equal(t, bound, b.gets.Load())
			held <- struct{}{}
			pass(time.Second)
			require.Equal(t, bound+1, b.gets.Load())
		})
	}
}

// TestCache_RateOfGetsBehindTheLiveEdge reads a burst of 16 bundles at once, and 500 a second after it.
func TestCache_RateOfGetsBehindTheLiveEdge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := setup(t, Config{})
		extents := bundles(t, b, 1016)
		for i := range extents {
			c.launch(unitKeys(&extents[i]), account{class: CatchUp})
		}
		synctest.Wait()
		require.EqualValues(t, 16, b.gets.Load())
		pass(time.Second + time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 516, b.gets.Load())
		pass(time.Second)
		synctest.Wait()
		require.EqualValues(t, 1016, b.gets.Load())
	})
}
