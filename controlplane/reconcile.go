package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/directory"
)

// Pauses before a virtual cluster that has ended with an error starts again. A run longer than maxRestartPause ends the growth.
const (
	restartPause    = 5 * time.Second
	maxRestartPause = time.Minute
)

// reconciler runs the virtual clusters according to their Specs. Each has a goroutine, so none waits for another.
type reconciler struct {
	*clusters
	ctx     context.Context
	run     func(context.Context, *cluster) error
	running sync.WaitGroup
	ended   chan error // has an element once no virtual cluster is left
}

// reconcile runs the virtual clusters until ctx ends. watch follows the Specs in etcd. If every virtual cluster has ended with an error, none
// has become ready since, and none comes from etcd, reconcile returns the errors: the process ends, and its supervisor starts it again.
func (s *clusters) reconcile(
	ctx context.Context, watch func(context.Context, func([]directory.Change)), run func(context.Context, *cluster) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	r := &reconciler{clusters: s, ctx: ctx, run: run, ended: make(chan error, 1)}
	s.mu.RLock()
	for _, e := range s.mu.bySource {
		r.running.Go(func() { r.keep(e) })
	}
	s.mu.RUnlock()
	r.running.Go(func() { watch(ctx, r.apply) })
	var err error
	select {
	case <-ctx.Done():
	case err = <-r.ended:
	}
	cancel()
	r.running.Wait()
	return err
}

// apply takes changes of etcd's Specs. Keys change at once.
func (r *reconciler) apply(changes []directory.Change) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.listed = true
	for _, c := range changes {
		r.applyOne(c)
	}
}

func (r *reconciler) applyOne(c directory.Change) {
	from := source{ofEtcd, c.ID}
	e := r.mu.bySource[from]
	fresh := e == nil
	if fresh {
		if c.Spec == nil && c.Fault == nil {
			return
		}
		e = &entry{source: from, changed: make(chan struct{}, 1)}
		r.mu.bySource[from] = e
	}
	if e.spec != nil && r.mu.byName[e.spec.Name] == e {
		delete(r.mu.byName, e.spec.Name)
	}
	e.spec, e.invalid, e.removed = c.Spec, c.Fault, c.Spec == nil && c.Fault == nil
	if e.spec != nil {
		e.invalid = r.admit(e)
	}
	if err := r.changeKeys(e); err != nil {
		e.invalid = err
	}
	if e.invalid != nil {
		if e.spec != nil {
			e.invalid = fmt.Errorf("virtual cluster %s with cluster id %s: %w", e.spec.Name, c.ID, e.invalid)
		}
		e.spec = nil
		r.log.Error("virtual cluster is not served", zap.Error(e.invalid))
	} else if e.spec != nil {
		r.mu.byName[e.spec.Name] = e
	}
	select {
	case e.changed <- struct{}{}:
	default:
	}
	if fresh {
		r.running.Go(func() { r.keep(e) })
	}
}

// admit returns an error for a Spec whose name another virtual cluster has.
func (r *reconciler) admit(e *entry) error {
	switch other := r.mu.byName[e.spec.Name]; {
	case other == nil:
		return nil
	case other.kind == ofSettings:
		return errInSettings
	}
	return directory.ErrNameTaken
}

var errInSettings = errors.New("--virtual-cluster names it too, and these settings hold")

// changeKeys makes the keys of the newest Spec those of the virtual cluster. An invalid one has none, nor has one for which changeKeys returns
// an error.
func (r *reconciler) changeKeys(e *entry) error {
	from := "cluster id " + e.key
	if e.spec == nil || e.invalid != nil {
		return r.keys.Replace(from, nil)
	}
	err := r.keys.Replace(from, e.spec.Entries())
	if err != nil {
		err = errors.Join(err, r.keys.Replace(from, nil))
	}
	return err
}

// keep runs one virtual cluster according to its newest Spec, until that is removed or ctx ends.
func (r *reconciler) keep(e *entry) {
	pause := restartPause
	for {
		spec, again := r.wanted(e)
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
			r.note(e, err)
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

// wanted returns the Spec to run, or nil if the virtual cluster is not to run now. again reports whether that can change.
func (r *reconciler) wanted(e *entry) (spec *directory.Spec, again bool) {
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

// serve runs a virtual cluster until it ends with an error, its Spec changes in more than its keys, or ctx ends.
func (r *reconciler) serve(e *entry, spec *directory.Spec) error {
	built, err := r.built(e, spec)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- r.run(ctx, built) }()
	for {
		select {
		case err := <-ended:
			return err
		case <-e.changed:
			if next := r.newest(e); next == nil || !next.SameButKeys(spec) {
				cancel()
			}
		}
	}
}

// newest returns the newest Spec, or nil if it is invalid or was removed.
func (r *reconciler) newest(e *entry) *directory.Spec {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return e.spec
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
	e.running = built
	return built, nil
}

// note keeps the error of a virtual cluster, and ends reconcile if none is left.
func (r *reconciler) note(e *entry, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.fault = err
	var ended []*entry
	for _, other := range r.mu.bySource {
		if other.kind == ofEtcd || other.fault == nil || r.ready(other.running) == nil {
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
