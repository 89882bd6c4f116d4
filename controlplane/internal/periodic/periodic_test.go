package periodic_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/internal/periodic"
)

// TestLoop_Pauses: a call follows each pause, and Wake ends one.
func TestLoop_Pauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var calls atomic.Int64
		var l periodic.Loop
		l.Start(ctx, time.Second, func(context.Context) time.Duration {
			calls.Add(1)
			return time.Minute
		})
		after := func(d time.Duration, want int64) {
			t.Helper()
			time.Sleep(d) // sleeps: virtual time of the bubble
			synctest.Wait()
			require.Equal(t, want, calls.Load())
		}
		after(time.Second-1, 0)
		after(1, 1)
		after(time.Minute-1, 1)
		after(1, 2)
		l.Wake()
		after(0, 3)
		after(time.Minute, 4)
		cancel()
		l.Wait()
		l.Wake()
		after(time.Hour, 4)
	})
}

// TestLoop_OneCall: Wake during a call is followed by one more, and Wait by none.
func TestLoop_OneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var running, calls atomic.Int64
		var l periodic.Loop
		l.Wake() // before Start
		l.Start(ctx, time.Hour, func(context.Context) time.Duration {
			require.EqualValues(t, 1, running.Add(1))
			defer running.Add(-1)
			calls.Add(1)
			time.Sleep(time.Second) // sleeps: virtual time of the bubble
			return time.Hour
		})
		synctest.Wait()
		for range 10 {
			l.Wake()
		}
		time.Sleep(time.Minute) // sleeps: virtual time of the bubble
		require.EqualValues(t, 2, calls.Load())
		l.Wake()
		synctest.Wait()
		cancel()
		l.Wait()
		require.Zero(t, running.Load())
		require.EqualValues(t, 3, calls.Load())
	})
}

// TestLoop_NoGoroutine: a thousand Loops that pause have no goroutine.
func TestLoop_NoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		before := runtime.NumGoroutine()
		var all []*periodic.Loop
		for range 1000 {
			all = append(all, periodic.Every(ctx, time.Minute, func(context.Context) {}))
		}
		time.Sleep(time.Hour + time.Second) // sleeps: virtual time of the bubble
		synctest.Wait()
		require.Less(t, runtime.NumGoroutine(), before+100, "the runtime may count a few dozen that have ended")
		cancel()
		for _, l := range all {
			l.Wait()
		}
	})
}
