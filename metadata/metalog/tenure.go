package metalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/wait"
)

// tenure is one time as owner. Its renewals run in one goroutine; the fence is a time that this goroutine moves on
// and everybody reads.
type tenure struct {
	log   *log
	lease Lease
	id    int64
	began uint64 // tail when the tenure began

	base   time.Time    // carries the monotonic clock that fence counts on
	fence  atomic.Int64 // ns after base at which the fence falls
	ctx    context.Context
	end    context.CancelCauseFunc // ends the tenure; the cause is why
	renews sync.WaitGroup

	// The appending goroutine's.
	tail   Tail
	broken error // an index is unresolved; nothing may be appended any more

	total   atomic.Int64 // Tail.Total
	trimmed atomic.Int64 // total up to the last trimmed entry

	trimMu sync.Mutex
	first  uint64 // index of the first entry not trimmed; guarded by trimMu
}

func newTenure(l *log, lease Lease, id int64, sent time.Time) *tenure {
	t := &tenure{log: l, lease: lease, id: id, base: sent}
	t.fence.Store(int64(l.cfg.Timing.SelfFence))
	t.ctx, t.end = context.WithCancelCause(context.Background())
	t.renews.Go(t.renew)
	return t
}

func (t *tenure) ID() int64             { return t.id }
func (t *tenure) Tail() uint64          { return t.began }
func (t *tenure) Lost() <-chan struct{} { return t.ctx.Done() }
func (t *tenure) Bytes() int64          { return t.total.Load() - t.trimmed.Load() }
func (t *tenure) Total() int64          { return t.total.Load() }

func (t *tenure) Valid() bool {
	return t.ctx.Err() == nil && int64(time.Since(t.base)) < t.fence.Load()
}

// fenceLeft is how long the fence still stands.
func (t *tenure) fenceLeft() time.Duration {
	return time.Duration(t.fence.Load()) - time.Since(t.base)
}

// renew moves the fence on until the tenure ends. A failed renewal is repeated soon; the fence falls when none
// succeeded for the self-fence time, and does not rise again.
func (t *tenure) renew() {
	timing := &t.log.cfg.Timing
	next := timing.Renew
	for t.pause(next) {
		sent := time.Now()
		_, err := attempt(t.ctx, min(timing.Attempt, max(t.fenceLeft(), 0)), func(ctx context.Context) (struct{}, error) {
			return struct{}{}, t.log.store.Renew(ctx, t.lease, t.id)
		})
		switch {
		case t.ctx.Err() != nil:
			return
		case errors.Is(err, ErrLeaseGone):
			t.lose("lease or ownership key is gone", err)
			return
		case t.fenceLeft() <= 0:
			t.lose("no renewal succeeded in time", err)
			return
		case err != nil:
			t.log.metrics.failedRenewals.Inc()
			t.log.cfg.Logger.Warn("ownership not renewed", zap.Int64("tenure", t.id),
				zap.Duration("fence_left", t.fenceLeft()), zap.Error(err))
			next = timing.Renew / 5
		default:
			t.fence.Store(int64(sent.Sub(t.base) + timing.SelfFence))
			next = timing.Renew
		}
	}
}

// pause waits for d, but not past the fence. It is false when the tenure has ended.
func (t *tenure) pause(d time.Duration) bool {
	return wait.For(t.ctx, min(d, max(t.fenceLeft(), 0))) == nil
}

// lose ends the tenure against its will.
func (t *tenure) lose(reason string, err error) {
	if t.ctx.Err() != nil {
		return
	}
	t.end(fmt.Errorf("%w: %s", ErrFenced, reason))
	t.log.metrics.tenuresLost.Inc()
	t.log.cfg.Logger.Warn("lost ownership", zap.Int64("tenure", t.id), zap.String("reason", reason), zap.Error(err))
}

func (t *tenure) Resign(ctx context.Context) error {
	t.end(fmt.Errorf("%w: resigned", ErrFenced))
	t.renews.Wait()
	_, err := read(ctx, t.log, "resign", func(ctx context.Context) (struct{}, error) {
		return struct{}{}, t.log.store.Revoke(ctx, t.lease)
	})
	return err
}

// SetSnapshots replaces only what each attempt has read: one that was given up and arrives late, when later pointers were
// set, would point to snapshots that are gone and a log that was trimmed. What cannot be read is replaced too.
func (t *tenure) SetSnapshots(ctx context.Context, refs []SnapshotRef) error {
	return t.guarded(ctx, "set snapshot pointers", func(ctx context.Context) (bool, error) {
		before, err := t.log.store.Snapshots(ctx)
		if err != nil && !errors.Is(err, ErrCorrupt) {
			return false, err
		}
		return t.log.store.SetSnapshots(ctx, t.id, before.Revision, refs)
	})
}

// Trim deletes in chunks, so that no single transaction holds up appends, then counts anew what is left.
func (t *tenure) Trim(ctx context.Context, index uint64) error {
	t.trimMu.Lock()
	defer t.trimMu.Unlock()
	for t.first <= index {
		to := min(index+1, t.first+trimChunk)
		err := t.guarded(ctx, "trim log", func(ctx context.Context) (bool, error) {
			return t.log.store.Delete(ctx, t.id, t.first, to)
		})
		if err != nil {
			return err
		}
		t.first = to
	}
	return t.recount(ctx)
}

// recount takes the bytes trimmed from the first entry left.
func (t *tenure) recount(ctx context.Context) error {
	trimmed, err := read(ctx, t.log, "read first entry", func(ctx context.Context) (int64, error) {
		recs, tail, err := t.log.store.Range(ctx, t.first, 1)
		if err != nil || len(recs) == 0 {
			return tail.Total, err
		}
		return recs[0].before(), nil
	})
	if err == nil {
		t.trimmed.Store(trimmed)
	}
	return err
}

// guarded repeats an operation that only the owner may do until it is answered. Doing it twice is harmless.
func (t *tenure) guarded(ctx context.Context, what string, op func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	ok, err := read(ctx, t.log, what, op)
	switch {
	case t.ctx.Err() != nil:
		return fmt.Errorf("%s: %w", what, context.Cause(t.ctx))
	case err != nil:
		return err
	case !ok:
		t.lose("ownership key is another's", nil)
		return fmt.Errorf("%s: %w", what, ErrFenced)
	}
	return nil
}
