package controlplane

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore/mem"
)

// slowBucket takes a second for the time, and counts the requests.
type slowBucket struct {
	*mem.Bucket
	asked  atomic.Int32
	silent atomic.Bool
	ahead  atomic.Int64
}

func (b *slowBucket) Now(ctx context.Context) (time.Time, error) {
	b.asked.Add(1)
	pause := time.Second
	if b.silent.Load() {
		pause = time.Hour
	}
	select {
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	case <-time.After(pause):
		return time.Now().Add(time.Duration(b.ahead.Load())), nil
	}
}

func TestStoreClock_AsksOnceForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &slowBucket{Bucket: mem.New()}
		b.ahead.Store(int64(time.Hour))
		c := newStoreClock(b)
		for round := range int32(3) {
			var callers sync.WaitGroup
			for range 100 {
				callers.Go(func() {
					now, err := c.Now(t.Context())
					require.NoError(t, err)
					require.Equal(t, time.Hour, time.Until(now))
				})
			}
			callers.Wait()
			require.Equal(t, round+1, b.asked.Load())
			time.Sleep(storeClockAge / 2) // sleeps: the clock is fake
			now, err := c.Now(t.Context())
			require.NoError(t, err)
			require.Equal(t, time.Hour, time.Until(now))
			require.Equal(t, round+1, b.asked.Load())
			time.Sleep(storeClockAge / 2) // sleeps: the clock is fake
		}
	})
}

// A silent store gets one request at a time, and each caller an error when its context ends. An answer is not used beyond its age.
func TestStoreClock_OfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &slowBucket{Bucket: mem.New()}
		c := newStoreClock(b)
		_, err := c.Now(t.Context())
		require.NoError(t, err)
		b.silent.Store(true)
		time.Sleep(storeClockAge) // sleeps: the clock is fake
		began := time.Now()
		var callers sync.WaitGroup
		for range 100 {
			callers.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := c.Now(ctx)
				require.Error(t, err)
			})
		}
		callers.Wait()
		require.Equal(t, time.Second, time.Since(began))
		require.LessOrEqual(t, b.asked.Load(), int32(101))
		b.silent.Store(false)
		_, err = c.Now(t.Context())
		require.NoError(t, err)
	})
}

// The store is asked again after a step of this machine's clock, in either direction.
func TestStoreClock_AsksAfterAStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &slowBucket{Bucket: mem.New()}
		c := newStoreClock(b)
		step := time.Duration(0)
		c.wall = func() time.Time { return time.Now().Add(step).Round(0) }
		for n, to := range []time.Duration{0, time.Second, 0, -time.Hour, -time.Hour - time.Millisecond} {
			step = to
			now, err := c.Now(t.Context())
			require.NoError(t, err)
			require.Zero(t, time.Until(now))
			require.Equal(t, int32(min(n+1, 4)), b.asked.Load())
		}
	})
}
