package metalog

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/internal/wait"
)

// fence is a time on the monotonic clock. The fence stands before this time.
type fence struct {
	base  time.Time    // carries the monotonic clock
	falls atomic.Int64 // ns after base
}

func (f *fence) init(sent time.Time, timing *Timing) {
	f.base = sent
	f.falls.Store(int64(timing.SelfFence))
}

// left returns the time until the fence falls, at least 0.
func (f *fence) left() time.Duration {
	return max(time.Duration(f.falls.Load())-time.Since(f.base), 0)
}

func (f *fence) stands() bool { return f.left() > 0 }

// keep repeats check every Timing.Renew and moves the fence to Timing.SelfFence after the send time of each success. After an error
// keep calls failed and repeats check soon. keep returns nil once ctx ends, ErrLeaseGone once check returns that, and otherwise check's
// last error once the fence has fallen. A fallen fence does not rise again.
func (f *fence) keep(ctx context.Context, timing *Timing, check func(context.Context) error, failed func(error)) error {
	next := timing.Renew
	for wait.For(ctx, min(next, f.left())) == nil {
		sent := time.Now()
		_, err := attempt(ctx, min(timing.Attempt, f.left()), func(ctx context.Context) (struct{}, error) {
			return struct{}{}, check(ctx)
		})
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the caller has ended it
		case errors.Is(err, ErrLeaseGone):
			return err
		case !f.stands():
			return errors.Join(errFell, err)
		case err != nil:
			failed(err)
			next = timing.Renew / 5
		default:
			f.falls.Store(int64(sent.Sub(f.base) + timing.SelfFence))
			next = timing.Renew
		}
	}
	return nil
}

var errFell = errors.New("no renewal succeeded in time")
