// Package wait waits for a duration or for the end of a context, whichever comes first, and aligns durations.
package wait

import (
	"context"
	"time"
)

// For waits for d and returns nil. If ctx ends first, it returns ctx.Err(). If d <= 0, it returns ctx.Err() at once, which
// is nil while ctx is live.
func For(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Align returns d, extended by less than slack so that it ends at a multiple of slack by the machine's clock. Waits of many goroutines then end together.
func Align(d, slack time.Duration) time.Duration {
	now := time.Now() // read once: the clock may be set back between two readings
	return now.Add(d + slack - 1).Truncate(slack).Sub(now)
}
