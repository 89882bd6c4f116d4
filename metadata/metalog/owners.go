package metalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"
)

// owners is a replica's copy of the ownership keys of all logs. follow reads the keys and watches their changes. confirm proves twice a second
// that the watch is current: the watch must reach a revision that was read linearizably. While it is current, there is a view.
type owners struct {
	lease *Lease

	mu struct {
		sync.Mutex
		keys     map[string]OwnerRecord // by name
		revision int64                  // keys include all changes up to here; 0 before the first read and until the keys are read anew
		history  uint64                 // of the store, as of the newest read of all keys
		doubt    doubt
		view     *view              // nil while the watch is not current
		fault    error              // the reason for that
		tenures  map[string]*tenure // of this replica, by the name of the ownership key
		waits    map[string]chan struct{}
		moved    chan struct{}           // closed when revision or view changes, then replaced
		cancel   context.CancelCauseFunc // ends the current watch, nil before the first one
	}
}

// doubt is an ownership key that the copy had and that a linearizable read at a revision did not find. Unless the watch shows its removal up to
// that revision, a backup of the store was restored, and the watch goes on without the changes that the backup lacks. Tenure 0 means no doubt.
type doubt struct {
	name             string
	tenure, revision int64
}

// view is a time in which the watch was current. Its fence stands until Timing.SelfFence after the send time of the last read of a revision
// that the watch has reached. A view whose fence has fallen is over for good, and with it all tenures that began in it.
type view struct {
	fence fence
	ctx   context.Context
	end   context.CancelCauseFunc
}

func (v *view) stands() bool { return v.ctx.Err() == nil && v.fence.stands() }

// errWentBack is returned if the store has a lower revision than the watch has shown, because a backup was restored.
var errWentBack = errors.New("the store's revision went back")

// errOtherHistory is returned if the store has another history than the keys were read from.
var errOtherHistory = errors.New("the store's history is another one")

// errContradicted ends a watch whose copy has a key that the store does not have.
var errContradicted = errors.New("the store does not have an ownership key that the watch has shown")

// errLostSight ends the watch at the end of a view. The store was away, and may have been restored.
var errLostSight = errors.New("ownership keys were not known to be current")

// errBehind is returned if the watch does not reach a revision in time.
var errBehind = errors.New("the watch of ownership keys is behind")

func newOwners(l *Lease) *owners {
	o := &owners{lease: l}
	o.mu.keys, o.mu.tenures, o.mu.waits = map[string]OwnerRecord{}, map[string]*tenure{}, map[string]chan struct{}{}
	o.mu.moved = make(chan struct{})
	return o
}

// follow reads all ownership keys and watches their changes, and begins anew when the watch breaks, until ctx ends.
func (o *owners) follow(ctx context.Context) {
	for pause := minBackoff; ; pause = min(2*pause, maxBackoff) {
		read, err := o.watch(ctx)
		if ctx.Err() != nil {
			return
		}
		o.lease.metrics.watches.Inc()
		if read {
			pause = minBackoff
		}
		o.lease.cfg.Logger.Info("watch of ownership keys broke, beginning anew", zap.Error(err))
		if sleep(ctx, pause) != nil {
			return
		}
	}
}

// watch follows until the watch breaks. read reports whether the keys were read.
func (o *owners) watch(ctx context.Context) (read bool, err error) {
	before := o.claimed()
	all, err := attempt(ctx, o.lease.cfg.Timing.Attempt, o.lease.store.Owners)
	if err != nil {
		return false, fmt.Errorf("read ownership keys: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.reset(all, cancel)
	for name, t := range before { // a store that was restored may have a lower revision than the tenure
		if o.owner(name).Tenure != t.id {
			t.lose("ownership key is gone", nil)
		}
	}
	err = o.lease.store.WatchOwners(ctx, all.Revision, o.update)
	return true, cmp.Or(context.Cause(ctx), err)
}

// claimed returns the tenures of this replica.
func (o *owners) claimed() map[string]*tenure {
	o.mu.Lock()
	defer o.mu.Unlock()
	return maps.Clone(o.mu.tenures)
}

// reset replaces all keys. cancel ends the watch that begins.
func (o *owners) reset(all OwnerKeys, cancel context.CancelCauseFunc) {
	o.mu.Lock()
	gone := o.mu.keys
	o.mu.keys, o.mu.revision, o.mu.cancel = make(map[string]OwnerRecord, len(all.Keys)), 0, cancel
	o.mu.history, o.mu.doubt = all.History, doubt{}
	for _, k := range all.Keys {
		delete(gone, k.Name)
	}
	for name := range gone {
		all.Keys = append(all.Keys, OwnerKey{Name: name})
	}
	o.mu.Unlock()
	o.update(all)
}

// update takes changes of keys. It ends the tenures whose keys are gone.
func (o *owners) update(changes OwnerKeys) {
	o.mu.Lock()
	for _, k := range changes.Keys {
		if k.Owner.Tenure == 0 {
			delete(o.mu.keys, k.Name)
		} else {
			o.mu.keys[k.Name] = k.Owner
		}
		o.wake(k.Name)
	}
	o.mu.revision = max(o.mu.revision, changes.Revision)
	o.settle()
	o.move()
	var lost []*tenure
	for name, t := range o.mu.tenures {
		if !o.has(name, t) {
			lost = append(lost, t)
		}
	}
	o.mu.Unlock()
	for _, t := range lost {
		t.lose("ownership key is gone", nil)
	}
	for _, k := range changes.Keys {
		o.lease.removeOrphan(k.Name)
	}
}

// move wakes confirm and current. Called with mu held.
func (o *owners) move() {
	close(o.mu.moved)
	o.mu.moved = make(chan struct{})
}

// has reports whether a tenure has its ownership key, or is newer than the keys. Called with mu held.
func (o *owners) has(name string, t *tenure) bool {
	return o.mu.revision < t.id || o.mu.keys[name].Tenure == t.id
}

// add makes update end the tenure when its key is gone, until remove is called.
func (o *owners) add(name string, t *tenure) (remove func()) {
	o.mu.Lock()
	o.mu.tenures[name] = t
	has := o.has(name, t)
	o.mu.Unlock()
	if !has {
		t.lose("ownership key is gone", nil)
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.mu.tenures[name] == t {
			delete(o.mu.tenures, name)
		}
	}
}

// confirm keeps a view while the watch is current, until ctx ends.
func (o *owners) confirm(ctx context.Context) {
	timing := &o.lease.cfg.Timing
	for pause := minBackoff; ; pause = min(2*pause, maxBackoff) {
		sent := time.Now()
		_, err := attempt(ctx, timing.Attempt, func(ctx context.Context) (struct{}, error) { return struct{}{}, o.prove(ctx) })
		if err == nil {
			o.hold(ctx, sent)
			pause = minBackoff
		} else {
			o.mu.Lock()
			o.mu.fault = err
			o.mu.Unlock()
		}
		if sleep(ctx, pause) != nil {
			return
		}
	}
}

// prove returns nil once the watch has shown all changes that the store had when prove was called. It repeats its request, since a report of
// the watch may be lost. If the watch does not get there, it begins anew.
func (o *owners) prove(ctx context.Context) error {
	first := int64(0)
	for {
		seen := o.seen()
		now, err := o.lease.store.Now(ctx)
		switch {
		case err != nil:
			return err
		case now.Revision < seen.Revision:
			o.restart(errWentBack) // else it would wait for revisions that the store has lost
			return errWentBack
		case seen.Revision > 0 && now.History != seen.History:
			o.restart(errOtherHistory)
			return errOtherHistory
		case first == 0:
			first = now.Revision
		}
		switch err := o.await(ctx, first, o.lease.cfg.Timing.Renew/5); {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			o.restart(err)
			return err
		}
	}
}

// await returns nil once the keys include all changes up to a revision, and errBehind after timeout.
func (o *owners) await(ctx context.Context, revision int64, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		o.mu.Lock()
		reached, moved := o.mu.revision >= revision, o.mu.moved
		o.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return errBehind
		}
	}
}

// seen returns the moment that the watch has reached.
func (o *owners) seen() Point {
	o.mu.Lock()
	defer o.mu.Unlock()
	return Point{Revision: o.mu.revision, History: o.mu.history}
}

// restart ends the current watch. All keys are read anew.
func (o *owners) restart(reason error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.breakOff(reason)
}

// breakOff is restart with mu held. The keys prove nothing from then on.
func (o *owners) breakOff(reason error) {
	if o.mu.cancel != nil {
		o.mu.cancel(reason)
	}
	o.mu.revision = 0
}

// compare compares the copy with a linearizable read of a log's keys.
func (o *owners) compare(name string, v *View) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if has := o.mu.keys[name].Tenure; o.mu.doubt.tenure == 0 && has != v.Owner.Tenure && has <= v.Revision {
		o.mu.doubt = doubt{name, has, v.Revision} // has is 0 if the watch is behind the read
		o.settle()
	}
}

// refused reads all keys anew if the store refused a request of a tenure whose key the copy has. The watch may only be behind.
func (o *owners) refused(name string, tenure int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.mu.keys[name].Tenure == tenure {
		o.breakOff(errContradicted)
	}
}

// settle ends a doubt once the watch has reached its revision. If the copy still has the key, all keys are read anew. Called with mu held.
func (o *owners) settle() {
	d := o.mu.doubt
	if d.tenure == 0 || o.mu.revision < d.revision {
		return
	}
	o.mu.doubt = doubt{}
	if o.mu.keys[d.name].Tenure == d.tenure {
		o.breakOff(errContradicted)
	}
}

// hold begins a view and keeps it until its fence falls or ctx ends.
func (o *owners) hold(ctx context.Context, sent time.Time) {
	l, v := o.lease, &view{}
	v.fence.init(sent, &l.cfg.Timing)
	v.ctx, v.end = context.WithCancelCause(context.Background())
	o.set(v, nil)
	err := v.fence.keep(ctx, &l.cfg.Timing, o.prove, func(err error) {
		l.cfg.Logger.Warn("ownership keys are not known to be current", zap.Duration("fence_left", v.fence.left()), zap.Error(err))
	})
	if ctx.Err() == nil {
		l.metrics.views.Inc()
		l.cfg.Logger.Warn("lost sight of the ownership keys", zap.Error(err))
		v.end(fmt.Errorf("%w: %w", ErrFenced, err))
	} else {
		v.end(fmt.Errorf("%w: the replica stops", ErrFenced))
	}
	o.set(nil, err)
	o.restart(errLostSight)
}

// set changes the view, and wakes all that wait for a change of ownership.
func (o *owners) set(v *view, fault error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.mu.view, o.mu.fault = v, fault
	o.move()
	for name := range o.mu.waits {
		o.wake(name)
	}
}

// current returns the current view. It waits for one until ctx ends, and then returns ErrUnavailable.
func (o *owners) current(ctx context.Context) (*view, error) {
	for {
		o.mu.Lock()
		v, fault, moved := o.mu.view, o.mu.fault, o.mu.moved
		o.mu.Unlock()
		if v != nil && v.stands() {
			return v, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("watch ownership keys: %w", ErrUnavailable), fault)
		}
	}
}

// owner returns the value of an ownership key, with tenure 0 if there is none.
func (o *owners) owner(name string) OwnerRecord {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mu.keys[name]
}

// forget ends the waits for changes of an ownership key.
func (o *owners) forget(name string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wake(name)
}

// wake ends the waits for the next change of a key's ownership. Called with mu held.
func (o *owners) wake(name string) {
	if wait := o.mu.waits[name]; wait != nil {
		close(wait)
		delete(o.mu.waits, name)
	}
}

// ownership is Log.Ownership of the log with an ownership key.
func (o *owners) ownership(name string) Ownership {
	o.mu.Lock()
	defer o.mu.Unlock()
	wait := o.mu.waits[name]
	if wait == nil {
		wait = make(chan struct{})
		o.mu.waits[name] = wait
	}
	if o.mu.view == nil || !o.mu.view.stands() {
		return Ownership{Changed: wait}
	}
	record := o.mu.keys[name]
	return Ownership{Owner: record.public(), Owned: record.Tenure != 0, Known: true, Changed: wait}
}
