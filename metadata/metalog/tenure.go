package metalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
)

// tenure is one time as owner, under one grant of the replica's lease and one view of ownership keys. It is valid while both stand and the
// view does not show that its key is gone.
type tenure struct {
	log   *log
	grant *Grant
	view  *view
	id    int64
	nonce uint64 // of the claim
	began uint64 // tail when the tenure began

	ctx    context.Context
	end    context.CancelCauseFunc // ends the tenure with its cause
	over   sync.Once               // for end: a tenure is lost or resigned, not both
	detach func()                  // from the grant and the view

	// The appending goroutine's.
	tail   Tail
	broken error // an index is unresolved; nothing may be appended any more

	total   atomic.Int64 // Tail.Total
	trimmed atomic.Int64 // total up to the last trimmed entry

	trimMu sync.Mutex
	first  uint64 // index of the first entry not trimmed; guarded by trimMu
}

func newTenure(l *log, g *Grant, v *view, owner OwnerRecord) *tenure {
	t := &tenure{log: l, grant: g, view: v, id: owner.Tenure, nonce: owner.Nonce}
	t.ctx, t.end = context.WithCancelCause(g.ctx)
	fromGrant := context.AfterFunc(g.ctx, func() { t.lose("the replica's lease has ended", context.Cause(g.ctx)) })
	fromView := context.AfterFunc(v.ctx, func() { t.lose("the watch of ownership keys is not current", context.Cause(v.ctx)) })
	remove := l.cfg.Lease.owners.add(l.store.OwnerKey(), t)
	t.detach = func() { fromGrant(); fromView(); remove() }
	return t
}

func (t *tenure) ID() int64             { return t.id }
func (t *tenure) Tail() uint64          { return t.began }
func (t *tenure) Lost() <-chan struct{} { return t.ctx.Done() }
func (t *tenure) Bytes() int64          { return t.total.Load() - t.trimmed.Load() }
func (t *tenure) Total() int64          { return t.total.Load() }

func (t *tenure) Valid() bool { return t.ctx.Err() == nil && t.grant.stands() && t.view.stands() }

// lose ends a tenure that was not resigned.
func (t *tenure) lose(reason string, err error) {
	t.over.Do(func() {
		t.end(fmt.Errorf("%w: %s", ErrFenced, reason))
		t.log.metrics.tenuresLost.Inc()
		t.log.cfg.Logger.Warn("lost ownership", zap.Int64("tenure", t.id), zap.String("reason", reason), zap.Error(err))
	})
}

// Resign removes the ownership key. The lease stays, since the replica's other tenures share it. If the removal fails, the key belongs to no
// tenure any more, and the lease removes it as an orphan.
func (t *tenure) Resign(ctx context.Context) error {
	t.over.Do(func() { t.end(fmt.Errorf("%w: resigned", ErrFenced)) })
	t.detach()
	err := t.log.disown(ctx, "resign", t.id)
	t.log.cfg.Lease.disclaim(t.nonce)
	if err != nil {
		t.log.cfg.Lease.removeOrphan(t.log.store.OwnerKey())
	}
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

// Trim deletes in chunks, so that no single transaction holds up appends, then counts the remaining entries anew.
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
		t.log.cfg.Lease.owners.refused(t.log.store.OwnerKey(), t.id)
		return fmt.Errorf("%s: %w", what, ErrFenced)
	}
	return nil
}
