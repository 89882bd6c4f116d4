package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/internal/accesskey"
)

const (
	// restartPause and maxRestartPause bound the pause before a virtual cluster that has ended with an error starts again. A run longer than
	// maxRestartPause ends the growth.
	restartPause    = 5 * time.Second
	maxRestartPause = time.Minute
	// settlePause is the time between two looks whether refused Specs can be served.
	settlePause = 5 * time.Second
)

// reconciler runs the virtual clusters according to their Specs. Each has a goroutine, so none waits for another.
type reconciler struct {
	*clusters
	ctx     context.Context
	run     func(context.Context, *cluster) error
	running sync.WaitGroup
	ended   chan error // has an element once no virtual cluster is left
}

// reconcile runs the virtual clusters until ctx ends. watch follows the Specs in etcd. If all virtual clusters of the settings have ended with an
// error, and etcd has none, reconcile returns the errors: the process ends, and its supervisor starts it again.
func (s *clusters) reconcile(
	ctx context.Context, watch func(context.Context, func([]directory.Change)), run func(context.Context, *cluster) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	r := &reconciler{clusters: s, ctx: ctx, run: run, ended: make(chan error, 1)}
	s.mu.RLock()
	for _, e := range s.mu.bySource {
		r.running.Go(func() { r.supervise(e) })
	}
	s.mu.RUnlock()
	r.running.Go(func() { watch(ctx, r.apply) })
	r.running.Go(r.resettle)
	var err error
	select {
	case <-ctx.Done():
	case err = <-r.ended:
	}
	cancel()
	r.running.Wait()
	return err
}

// apply takes changes of etcd's Specs. Keys and limits change at once.
func (r *reconciler) apply(changes []directory.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		from := source{ofEtcd, c.ID}
		e := r.mu.bySource[from]
		if e == nil {
			e = &entry{source: from, changed: make(chan struct{}, 1)}
			r.mu.bySource[from] = e
			r.running.Go(func() { r.supervise(e) })
		}
		e.newest, e.removed = c, c.Spec == nil && c.Fault == nil
	}
	r.settle()
	if r.mu.listed.IsZero() {
		r.mu.listed = time.Now()
		r.keys.SetPartial(false)
	}
}

// resettle settles again and again until ctx ends, since a key that a Spec was refused for can leave the settings' files.
func (r *reconciler) resettle() {
	tick := time.NewTicker(settlePause)
	defer tick.Stop()
	for {
		select {
		case <-r.ctx.Done():
			return
		case <-tick.C:
		}
		r.mu.Lock()
		for _, e := range r.mu.bySource {
			if e.invalid != nil && e.newest.Spec != nil {
				r.settle()
				break
			}
		}
		r.mu.Unlock()
	}
}

// settle decides which Specs of etcd are served, and with which keys. If two have one name or key, the one that was created first is served, so
// all replicas decide alike. It costs all Specs and their keys. Called with mu held.
func (r *reconciler) settle() {
	var all []*entry
	for _, e := range r.mu.bySource {
		if e.kind == ofEtcd {
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.newest.Created, b.newest.Created), strings.Compare(a.key, b.key))
	})
	names, holders := map[string]*entry{}, map[accesskey.Hash]*entry{}
	for name, e := range r.mu.byName {
		if e.kind == ofSettings {
			names[name] = e
		}
	}
	refusals := map[*entry]error{}
	for _, e := range all {
		if refusals[e] = admit(e, names, holders); refusals[e] == nil && e.newest.Spec != nil {
			names[e.newest.Spec.Name] = e
			for _, k := range e.newest.Spec.Keys {
				holders[k.Hash] = e
			}
		}
	}
	for _, e := range all { // a key that moves leaves its holder first
		r.keepKeys(e, refusals[e])
	}
	for _, e := range all {
		if refusals[e] == nil && e.newest.Spec != nil {
			refusals[e] = r.addKeys(e)
		}
		if refusals[e] != nil && e.newest.Spec != nil && names[e.newest.Spec.Name] == e {
			delete(names, e.newest.Spec.Name)
		}
		r.decide(e, refusals[e])
	}
	r.mu.byName = names
}

// admit returns the reason for which a Spec is not served beside the older Specs, or nil.
func admit(e *entry, names map[string]*entry, holders map[accesskey.Hash]*entry) error {
	s := e.newest.Spec
	if s == nil {
		return e.newest.Fault
	}
	if other := names[s.Name]; other != nil {
		if other.kind == ofSettings {
			return errInSettings
		}
		return directory.ErrNameTaken
	}
	for _, k := range s.Keys {
		if other := holders[k.Hash]; other != nil {
			return fmt.Errorf("key with SHA-256 %s... is also a key of virtual cluster %s: %w", k.Hash, other.newest.Spec.Name, keys.ErrTaken)
		}
	}
	return nil
}

var errInSettings = errors.New("the name is also in --virtual-cluster, which has priority: remove one of the two")

// keepKeys withdraws the keys that the newest Spec does not have, or all if it is refused.
func (r *reconciler) keepKeys(e *entry, refused error) {
	var kept []keys.Entry
	if refused == nil && e.newest.Spec != nil {
		next := e.newest.Spec.Entries()
		kept = slices.DeleteFunc(slices.Clone(e.keys), func(k keys.Entry) bool { return !slices.Contains(next, k) })
	}
	if len(kept) < len(e.keys) {
		_ = r.keys.Replace(e.origin(), kept) // fewer keys never clash
		e.keys = kept
	}
}

// addKeys adds the keys of the newest Spec. After an error, the virtual cluster has none.
func (r *reconciler) addKeys(e *entry) error {
	next := e.newest.Spec.Entries()
	if slices.Equal(next, e.keys) {
		return nil
	}
	if err := r.keys.Replace(e.origin(), next); err != nil {
		r.keepKeys(e, err)
		return err
	}
	e.keys = next
	return nil
}

// origin is the name of the keys' source.
func (e *entry) origin() string { return "cluster id " + e.key }

// decide makes the newest Spec the one to run, or none if it is refused, and notifies supervise of a change.
func (r *reconciler) decide(e *entry, refused error) {
	spec := e.newest.Spec
	if refused != nil {
		if spec != nil {
			refused = fmt.Errorf("virtual cluster %s with cluster id %s: %w", spec.Name, e.key, refused)
		}
		if e.invalid == nil || e.invalid.Error() != refused.Error() {
			r.log.Error("virtual cluster is not served", zap.Error(refused))
		}
		spec = nil
	}
	changed := spec != e.spec || e.removed
	e.spec, e.invalid = spec, refused
	if !changed {
		return
	}
	e.limit()
	if e.stop != nil && !e.follows(e.serves) {
		e.stop()
	}
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// supervise runs one virtual cluster according to its newest Spec, until that is removed or ctx ends.
func (r *reconciler) supervise(e *entry) {
	pause := restartPause
	for {
		spec, again := r.specToRun(e)
		if !again {
			return
		}
		var restart <-chan time.Time
		if spec != nil {
			began := time.Now()
			err := r.serve(e, spec)
			if time.Since(began) > maxRestartPause {
				pause = restartPause
			}
			if err == nil {
				continue
			}
			r.recordFault(e, err)
			restart = time.After(pause)
			pause = min(2*pause, maxRestartPause)
		}
		select {
		case <-r.ctx.Done():
			return
		case <-e.changed:
		case <-restart:
		}
	}
}

// specToRun returns the Spec to run, or nil if the virtual cluster is not to run now. again reports whether that can change. specToRun drops the
// cluster of an entry that is not to run, and removes the entry of a removed Spec.
func (r *reconciler) specToRun(e *entry) (spec *directory.Spec, again bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return nil, false
	}
	if e.spec != nil && e.spec.State == directory.Active {
		return e.spec, true
	}
	e.running, e.fault = nil, nil // its metrics go too
	if e.removed && r.mu.bySource[e.source] == e {
		delete(r.mu.bySource, e.source)
	}
	return nil, !e.removed
}

// serve runs a virtual cluster until it ends with an error, its Spec changes in more than its keys and limits, or ctx ends.
func (r *reconciler) serve(e *entry, spec *directory.Spec) error {
	built, err := r.built(e, spec)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	if r.stopIfChanged(e, spec, cancel) {
		err = r.run(ctx, built)
	}
	if changed := !r.stopIfChanged(e, spec, nil); changed && err != nil {
		r.log.Warn("virtual cluster has ended while its description changed", zap.String("virtual_cluster", spec.Name), zap.Error(err))
		return nil
	}
	return err
}

// stopIfChanged has decide call stop once the newest Spec differs from spec in more than its keys and limits. It returns false if it does already.
func (r *reconciler) stopIfChanged(e *entry, spec *directory.Spec, stop context.CancelFunc) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.serves, e.stop = spec, stop
	select {
	case <-e.changed: // the comparison below is of that change
	default:
	}
	return e.follows(spec)
}

// follows reports whether the newest Spec is the given one but for its keys and limits. Called with clusters.mu held.
func (e *entry) follows(spec *directory.Spec) bool { return e.spec != nil && e.spec.SameRun(spec) }

// limit gives the newest limits to the cluster of the newest start. Called with clusters.mu held.
func (e *entry) limit() {
	if e.running != nil && e.spec != nil {
		e.running.limited.Store(e.spec)
	}
}

// built returns the cluster to run. The settings' first one was built before.
func (r *reconciler) built(e *entry, spec *directory.Spec) (*cluster, error) {
	r.mu.RLock()
	built := e.running
	r.mu.RUnlock()
	if built != nil && built.spec == spec && !built.began.Swap(true) {
		return built, nil
	}
	built, err := r.build(spec)
	if err != nil {
		return nil, err
	}
	built.began.Store(true)
	r.mu.Lock()
	defer r.mu.Unlock()
	e.running, e.fault = built, nil
	e.limit() // the Spec may have changed meanwhile
	return built, nil
}

// recordFault keeps the error of a virtual cluster, and ends reconcile if none is left.
func (r *reconciler) recordFault(e *entry, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.fault = err
	var ended []*entry
	for _, other := range r.mu.bySource {
		if r.mu.listed.IsZero() || other.kind == ofEtcd || other.fault == nil {
			r.log.Error("virtual cluster has ended and starts again after a pause", zap.String("virtual_cluster", e.name()), zap.Error(err))
			return
		}
		ended = append(ended, other)
	}
	slices.SortFunc(ended, func(a, b *entry) int { return strings.Compare(a.name(), b.name()) })
	var faults []error
	for _, other := range ended {
		faults = append(faults, other.fault)
	}
	select {
	case r.ended <- errors.Join(faults...):
	default:
	}
}
