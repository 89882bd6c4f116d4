// Package wait waits for a duration or for the end of a context, whichever comes first.
package wait

import (
	"context"
	"time"
)

// For returns nil after d. If ctx ends first, For returns ctx.Err() at once. A d of 0 or less does not wait.
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
