// Package wait waits for a duration or for the end of a context, whichever comes first.
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
