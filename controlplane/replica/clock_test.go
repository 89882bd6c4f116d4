package replica

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore/mem"
)

// clockBucket tells the time of the bubble, the store's; or nothing.
type clockBucket struct {
	*mem.Bucket
	down atomic.Bool
}

func (b *clockBucket) Now(context.Context) (time.Time, error) {
	if b.down.Load() {
		return time.Time{}, errors.New("store is down")
	}
	return time.Now(), nil
}

func testClock(b *clockBucket, others ...Clock) *clock {
	cfg := Config{Bucket: b, Clocks: func() []Clock { return others }}
	cfg.ApplyDefaults()
	return newClock(cfg, newMetrics(prometheus.NewRegistry()))
}

// The machine's clock is set a day ahead under a running replica: command time goes on as before, whether the store can
// be asked or not, and follows the clock again once both agree.
func TestClock_StepsDoNotAgeTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &clockBucket{Bucket: mem.New()}
		c := testClock(b)
		step := time.Duration(0)
		c.wall = func() time.Time { return time.Now().Add(step) }
		c.measure(t.Context())
		require.True(t, c.near())

		step = 24 * time.Hour
		b.down.Store(true)
		time.Sleep(time.Minute)
		c.measure(t.Context())
		require.Zero(t, time.Until(c.now()))

		b.down.Store(false)
		c.measure(t.Context())
		require.False(t, c.near())
		require.Zero(t, time.Until(c.now()))

		step = 20 * time.Second
		c.measure(t.Context())
		require.True(t, c.near())
		require.Equal(t, step, time.Until(c.now()))
	})
}

// A replica starts with its clock a year ahead while the store tells no time: command time goes on from the last entry, and
// never steps, until both clocks agree.
func TestClock_BoundByTheLastEntryUntilMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &clockBucket{Bucket: mem.New()}
		b.down.Store(true)
		c := testClock(b)
		ahead := 365 * 24 * time.Hour
		c.wall = func() time.Time { return time.Now().Add(ahead) }
		c.start.wall = c.wall()
		last := time.Now()
		require.NoError(t, c.mayOwn(t.Context(), false), "a silent store keeps nobody from owning")
		require.ErrorIs(t, c.mayOwn(t.Context(), true), errNoClock, "but for the first entry of a log")
		c.resume(last.UnixMilli())
		time.Sleep(time.Hour)
		require.Equal(t, time.Hour, c.now().Sub(last))

		b.down.Store(false)
		c.measure(t.Context())
		require.False(t, c.near())
		require.Equal(t, time.Hour, c.now().Sub(last), "the clocks do not agree")

		ahead = 0
		c.measure(t.Context())
		require.True(t, c.near())
		require.Zero(t, time.Until(c.now()))
	})
}

// A replica takes over while the store tells no time. The last entry is an hour old. Once both clocks agree, command time catches up at one and
// a half times the speed of the clock, so that a transaction which began meanwhile does not time out at once.
func TestClock_CatchesUpOnceMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &clockBucket{Bucket: mem.New()}
		b.down.Store(true)
		c := testClock(b)
		last := time.Now().Add(-time.Hour)
		c.resume(last.UnixMilli())
		time.Sleep(10 * time.Minute) // sleeps: the clock is fake
		require.Equal(t, 10*time.Minute, c.now().Sub(last))

		b.down.Store(false)
		for n := range 240 {
			c.measure(t.Context())
			require.Equal(t, 10*time.Minute+time.Duration(n)*45*time.Second, c.now().Sub(last))
			time.Sleep(30 * time.Second) // sleeps: the clock is fake
		}
		for range 10 {
			require.Zero(t, time.Until(c.now()))
			time.Sleep(time.Minute) // sleeps: the clock is fake
			c.measure(t.Context())
		}
	})
}

// A replica whose clock agrees with the store's takes over. Command time steps to the clock.
func TestClock_StepsAtATakeover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := testClock(&clockBucket{Bucket: mem.New()})
		c.measure(t.Context())
		c.resume(time.Now().Add(-time.Hour).UnixMilli())
		require.Zero(t, time.Until(c.now()))
	})
}

// A clock that is behind the last entry is not moved ahead by it.
func TestClock_LastEntryIsNoFloor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &clockBucket{Bucket: mem.New()}
		b.down.Store(true)
		c := testClock(b)
		c.resume(time.Now().Add(time.Minute).UnixMilli())
		require.Zero(t, time.Until(c.now()))
	})
}

// Before the store has answered once, it is asked every second.
func TestClock_MeasuresSoonAfterTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &clockBucket{Bucket: mem.New()}
		b.down.Store(true)
		c := testClock(b)
		ctx, cancel := context.WithCancel(t.Context())
		measures := c.repeat(ctx, 30*time.Second)
		time.Sleep(10*time.Second + firstPeriod/2)
		require.Nil(t, c.agreed.Load())
		b.down.Store(false)
		time.Sleep(firstPeriod)
		require.NotNil(t, c.agreed.Load())
		cancel()
		measures.Wait()
	})
}
