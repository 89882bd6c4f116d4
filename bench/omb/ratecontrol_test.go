package omb

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A search by hand: what each period achieved, and the rate and the step that follow.
func TestRateControl(t *testing.T) {
	type look struct {
		what                string
		period              time.Duration
		published, received int64 // in the period
		rate, step          float64
	}
	control, rate := newRateControl(), float64(startRate)
	var published, received int64
	for _, l := range []look{
		{"all kept up: doubled", 3 * time.Second, 30_000, 30_000, 20_000, 1},
		{"exactly at the limit of what may be behind", 3 * time.Second, 60_000, 59_000, 40_000, 1},
		// 120,000 were due, 90,000 came: behind by 30,000. It falls to what came, as that is what would have been bearable too.
		{"publishing is behind", 3 * time.Second, 90_000, 91_000, 30_000, 0.5},
		{"kept up: the step doubles before the rate grows", 3 * time.Second, 90_000, 90_000, 60_000, 1},
		// 180,000 were due and sent, 150,000 received: min(150,000, 180,000 - 30,000) in 3 s.
		{"receiving is behind", 3 * time.Second, 180_000, 150_000, 50_000, 0.5},
		// Still 30,000 behind, all that came in was received: min(150,000, 120,000).
		{"what is left from before counts", 3 * time.Second, 150_000, 150_000, 40_000, 0.25},
		{"caught up", 3 * time.Second, 120_000, 150_000, 60_000, 0.5},
		{"a longer period expects more", 6 * time.Second, 360_000, 360_000, 120_000, 1},
		{"nothing moves", 3 * time.Second, 0, 0, 0, 0.5},
	} {
		published, received = published+l.published, received+l.received
		rate = control.next(rate, l.period, published, received)
		require.InDelta(t, l.rate, rate, 1e-6, l.what)
		require.InDelta(t, l.step, control.step, 1e-9, l.what)
	}
}

func TestRateControl_TheStepHasALeast(t *testing.T) {
	control := newRateControl()
	for range 20 {
		control.next(1e6, time.Second, 0, 0)
	}
	require.InDelta(t, leastStep, control.step, 0)
	require.InDelta(t, 102, control.next(100, time.Second, 100, 100), 1e-9, "it doubles to 2 %")
}
