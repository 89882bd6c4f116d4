package writer_test

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/metadata/extent"
)

type extentOf = extent.Extent

func TestWriter_AnIdleBatchWaitsTheLingerOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		began := time.Now()
		b := plain(3, 500)
		require.Zero(t, r.accepted(r.add(b)))
		require.Equal(t, 5*time.Millisecond, time.Since(began))
		require.Equal(t, want(b), r.stored(3))
		r.checkMemory(3)
		r.checkObjects()
	})
}

func TestWriter_TokensPaceSeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.FlushInterval = time.Second })
		var waits []time.Duration
		for range 7 {
			began := time.Now()
			r.accepted(r.add(plain(0, 100)))
			waits = append(waits, time.Since(began).Round(time.Millisecond))
		}
		linger, spacing := 5*time.Millisecond, 250*time.Millisecond
		require.Equal(t, []time.Duration{linger, linger, linger, linger}, waits[:4], "the burst")
		require.Equal(t, spacing-3*linger, waits[4], "the token that came back meanwhile counts")
		require.Equal(t, []time.Duration{spacing, spacing}, waits[5:])
	})
}

func TestWriter_HasItsShareOfTheZonesBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		share := 0.25
		r := newRig(t, func(c *writer.Config) {
			c.FlushInterval = time.Hour
			c.Share = func() float64 { return share }
		})
		r.accepted(r.add(plain(0, 100)))
		began := time.Now()
		r.accepted(r.add(plain(0, 100)))
		require.InDelta(t, time.Second, time.Since(began), float64(10*time.Millisecond), "one token a second")
		share = 0.5
		began = time.Now()
		r.accepted(r.add(plain(0, 100)))
		require.InDelta(t, time.Second/2, time.Since(began), float64(10*time.Millisecond))
	})
}

func TestWriter_TheFlushIntervalSealsWithoutToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.Share = func() float64 { return 0.01 } })
		r.accepted(r.add(plain(0, 100)))
		for range 5 {
			began := time.Now()
			r.accepted(r.add(plain(0, 100)))
			require.Equal(t, 250*time.Millisecond, time.Since(began))
		}
	})
}

func TestWriter_SizeSealsAtOnceAndChargesTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.FlushBytes = 32 << 10; c.FlushInterval = time.Hour })
		var last *writer.Produce
		began := time.Now()
		for range 4 {
			for range 4 {
				last = r.add(plain(0, 8<<10))
			}
		}
		r.accepted(last)
		require.Zero(t, time.Since(began), "nobody waits for time")
		require.Equal(t, 4, r.bucket.count())
		r.accepted(r.add(plain(0, 100)))
		require.InDelta(t, 250*time.Millisecond, time.Since(began), float64(time.Millisecond), "the burst is used up")
	})
}

func TestWriter_DebtIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.FlushBytes = 32 << 10; c.FlushInterval = time.Hour })
		for range 50 {
			r.accepted(r.add(plain(0, 32<<10)))
		}
		began := time.Now()
		r.accepted(r.add(plain(0, 100)))
		require.InDelta(t, 5*250*time.Millisecond, time.Since(began), float64(time.Millisecond), "a burst of debt and one")
	})
}

func TestWriter_BatchCountSeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.FlushBatches = 3; c.FlushInterval = time.Hour })
		var last *writer.Produce
		began := time.Now()
		for range 9 {
			last = r.add(plain(0, 100))
		}
		r.accepted(last)
		require.Zero(t, time.Since(began))
		require.Equal(t, 3, r.bucket.count())
	})
}

func TestWriter_ABundleIsLargerThanFlushBytesOnlyForOneBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.FlushBytes = 64 << 10 })
		small, large := plain(1, 10<<10), plain(1, 300<<10)
		r.add(small)
		require.EqualValues(t, 102, r.accepted(r.add(large)))
		require.Equal(t, 2, r.bucket.count())
		require.True(t, bytes.Equal(want(small, large), r.stored(1)))
		r.checkMemory(1)
		r.checkObjects()
	})
}

func TestWriter_WhileNoPutCanBeginTheBundleGoesOnGathering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.MaxPuts = 1 })
		r.bucket.before = delay(1, 3*time.Second)
		first := r.add(plain(0, 100))
		<-time.After(10 * time.Millisecond)
		var rest []*writer.Produce
		for range 10 {
			rest = append(rest, r.add(plain(0, 100)))
			<-time.After(100 * time.Millisecond)
		}
		require.EqualValues(t, 0, r.accepted(first))
		for i, p := range rest {
			require.EqualValues(t, i+1, r.accepted(p))
		}
		require.Equal(t, 2, r.bucket.count(), "the ten went together")
	})
}

func TestWriter_DrainSettlesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.FlushInterval = time.Hour; c.Linger = time.Hour })
		r.bucket.before = delay(1, time.Second)
		var all []*writer.Produce
		for i := range 20 {
			all = append(all, r.add(plain(int32(i%3), 1000)))
		}
		began := time.Now()
		require.NoError(t, r.Drain(t.Context()))
		require.Equal(t, time.Second, time.Since(began))
		for _, p := range all {
			r.accepted(p)
		}
		got := r.result(r.add(plain(0, 100)))
		require.ErrorIs(t, got.Err, writer.ErrDraining)
		require.NoError(t, r.Drain(t.Context()))
	})
}

func TestWriter_DrainEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.bucket.before = delay(1, time.Minute)
		p := r.add(plain(0, 100))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		require.ErrorIs(t, r.Drain(ctx), context.DeadlineExceeded)
		r.stop()
		require.ErrorIs(t, r.result(p).Err, writer.ErrSessionClosed)
	})
}

// ofLatency is a batch of a topic that asks for it.
func ofLatency(l writer.Latency, b writer.Batch) writer.Batch {
	b.Latency = l
	return b
}

// TestWriter_FastBatches do not wait for the zone's budget as long as their own lasts; then they are as others.
func TestWriter_FastBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.FastPutRate = 20 })
		waited := func(l writer.Latency) time.Duration {
			began := time.Now()
			r.accepted(r.add(ofLatency(l, plain(0, 100))))
			return time.Since(began).Round(time.Millisecond)
		}
		linger := 5 * time.Millisecond
		for range 4 + 5 { // the zone's burst, and a quarter of a second's of their own
			require.Equal(t, linger, waited(writer.Fast))
		}
		for range 20 {
			require.LessOrEqual(t, waited(writer.Fast), time.Second/20+linger, "one after the other at their own rate")
		}
		require.Greater(t, waited(writer.Standard), 100*time.Millisecond, "the zone's budget was not saved for others")
	})
}
