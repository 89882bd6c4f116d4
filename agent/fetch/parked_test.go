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

func TestCharge_Turns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Fetcher{parked: newParked(400, func() {})}
		parked := f.Charge()
		require.True(t, parked.Park(300))
		require.True(t, parked.Waits())
		over := f.Charge()
		require.False(t, over.Park(1))
		require.NoError(t, over.Resize(t.Context(), 60))
		require.False(t, over.Waits())

		late := f.Charge()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, late.Resize(ctx, 41), context.DeadlineExceeded, "the turns have 40 bytes left")
		late.Release()
		large := f.Charge()
		done := make(chan error)
		go func() { done <- large.Resize(t.Context(), 1<<40) }()
		synctest.Wait()
		over.Release()
		require.NoError(t, <-done, "a fetch above the bound takes all turns")
		go func() { done <- over.Resize(t.Context(), 10) }()
		synctest.Wait()
		require.Empty(t, done)
		large.Release()
		require.NoError(t, <-done)
		over.Release()
		parked.Release()
		parked.Release()
		require.Zero(t, f.parked.held.Load())
		require.True(t, over.Park(300))
	})
}

// TestCharge_IsBounded: 200 fetches of many sizes are within the bound together.
func TestCharge_IsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 4000
		f := &Fetcher{parked: newParked(limit, func() {})}
		var held, most atomic.Int64
		var all sync.WaitGroup
		for n := range 200 {
			all.Go(func() {
				bytes := int64(1 + n*7%300)
				c := f.Charge()
				if !c.Park(bytes) {
					if err := c.Resize(t.Context(), bytes); err != nil {
						t.Error(err)
						return
					}
				}
				now := held.Add(bytes)
				for old := most.Load(); now > old && !most.CompareAndSwap(old, now); old = most.Load() {
				}
				pass(time.Duration(1+n%5) * time.Millisecond)
				held.Add(-bytes)
				c.Release()
			})
		}
		all.Wait()
		require.LessOrEqual(t, most.Load(), int64(limit))
		require.Greater(t, most.Load(), int64(limit*9/10))
		require.Zero(t, f.parked.held.Load())
	})
}
