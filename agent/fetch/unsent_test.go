package fetch

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestUnsent_Line(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reclaims atomic.Int64
		u := &unsent{limit: 100, reclaim: func() { reclaims.Add(1) }}
		u.held.Store(200)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		var order []int
		reads := make([]func(), 5)
		wait := func(n int, ctx context.Context) {
			go func() {
				if read, ok := u.await(ctx); ok {
					mu.Lock()
					defer mu.Unlock()
					order, reads[n] = append(order, n), read
				}
			}()
			synctest.Wait()
		}
		for n := range 4 {
			wait(n, t.Context())
		}
		wait(4, ctx)
		pass(reclaimPause*10 + time.Millisecond)
		require.EqualValues(t, 10, reclaims.Load(), "once a pause, however many wait")
		require.Empty(t, order)

		u.release(1)
		synctest.Wait()
		require.Equal(t, []int{0}, order, "in the order in which they came, without a pause")
		u.held.Add(50) // it read
		reads[0]()
		synctest.Wait()
		require.Equal(t, []int{0}, order)
		u.release(150)
		synctest.Wait()
		require.ElementsMatch(t, []int{0, 1, 2}, order, "each admitted fetch has its reservation")
		_, barged := tryAwait(u)
		require.False(t, barged, "a new fetch goes behind the line")
		cancel()
		reads[1]()
		reads[2]()
		synctest.Wait()
		require.Len(t, order, 4)
		require.Equal(t, 3, order[3])
		reads[3]()

		before := reclaims.Load()
		pass(time.Minute)
		require.Equal(t, before, reclaims.Load(), "no fetch waits")
		require.Zero(t, u.mu.reserved)
		require.Zero(t, u.waiting.Load())
		_, ok := tryAwait(u)
		require.True(t, ok, "there is room")
	})
}

// tryAwait tries to be admitted at once.
func tryAwait(u *unsent) (func(), bool) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return u.await(ctx)
}

// BenchmarkUnsent measures the check of a fetch when there is room.
func BenchmarkUnsent(b *testing.B) {
	u := &unsent{limit: 1 << 20, reclaim: func() {}}
	b.ReportAllocs()
	for b.Loop() {
		read, ok := u.await(b.Context())
		if !ok {
			b.Fatal("no room")
		}
		u.held.Add(10)
		read()
		u.release(10)
	}
}
