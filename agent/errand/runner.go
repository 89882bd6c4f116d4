package errand

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// maxRunning is the maximum number of errands that run beside each other.
	maxRunning = 4
	// maxQueued is the maximum number of errands that wait.
	maxQueued = 16
	// timeout is the maximum time of an errand from its arrival. The owner waits no longer.
	timeout = 30 * time.Second
)

var (
	errBusy     = errors.New("the agent has enough errands")
	errNoRole   = errors.New("the agent does not have the jobs role")
	errStopping = errors.New("the agent stops")
	errUnknown  = errors.New("the agent does not know this kind of errand")
	errLate     = errors.New("the errand waited too long in the agent")
)

// Owner takes the answers (client.Session).
type Owner interface{ ErrandDone(*api.ErrandDone) }

// Config of a Runner.
type Config struct {
	Owner Owner
	// Ready returns an error while the bucket is not known to be the virtual cluster's. An errand that would run then is refused: a wrong
	// bucket has no object, and the owner would take its bundles for deleted. nil means that the bucket is known.
	Ready func() error
	// Bundles are the bundles that errands list and delete. nil means that the agent lacks the jobs role, and all errands but MarkBucket are
	// refused.
	Bundles *Bundles
	// MarkBucket writes the marker of the bucket again if it was removed.
	MarkBucket func(ctx context.Context) error
	Log        *zap.Logger
	Registerer prometheus.Registerer
}

// Runner does errands. OnErrand makes it a client.ErrandHandler.
type Runner struct {
	cfg     Config
	metrics *metrics
	queue   chan queued
	stopped chan struct{} // closed when Run ends
}

// queued is an errand that waits.
type queued struct {
	*api.Errand
	deadline time.Time // of its end
}

// New returns a Runner that does nothing before Run.
func New(cfg Config) *Runner {
	if cfg.Ready == nil {
		cfg.Ready = func() error { return nil }
	}
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop())
	cfg.Registerer = cmp.Or[prometheus.Registerer](cfg.Registerer, prometheus.NewRegistry())
	return &Runner{cfg: cfg, metrics: newMetrics(cfg.Registerer), queue: make(chan queued, maxQueued), stopped: make(chan struct{})}
}

// Run does errands until ctx ends. Errands that wait by then are refused.
func (r *Runner) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for range maxRunning {
		running.Go(func() {
			for {
				select {
				case e := <-r.queue:
					r.run(ctx, e)
				case <-ctx.Done():
					return
				}
			}
		})
	}
	running.Wait()
	close(r.stopped)
	for {
		select {
		case e := <-r.queue:
			r.refuse(e.Errand, errStopping)
		default:
			return nil
		}
	}
}

// OnErrand takes an errand, or refuses it. It does not block.
func (r *Runner) OnErrand(e *api.Errand) {
	if r.cfg.Bundles == nil && e.GetMarkBucket() == nil {
		r.refuse(e, errNoRole)
		return
	}
	select {
	case <-r.stopped:
		r.refuse(e, errStopping)
		return
	default:
	}
	select {
	case r.queue <- queued{e, time.Now().Add(timeout)}:
	default:
		r.refuse(e, errBusy)
	}
}

func (r *Runner) refuse(e *api.Errand, reason error) {
	r.metrics.errands.WithLabelValues(resultRefused).Inc()
	r.cfg.Owner.ErrandDone(&api.ErrandDone{Id: e.Id, Error: reason.Error()})
}

// run does an errand and answers it. After the deadline it does nothing: the owner has asked another agent.
func (r *Runner) run(ctx context.Context, e queued) {
	if !time.Now().Before(e.deadline) {
		r.refuse(e.Errand, errLate)
		return
	}
	if err := r.cfg.Ready(); err != nil {
		r.refuse(e.Errand, err)
		return
	}
	ctx, cancel := context.WithDeadline(ctx, e.deadline)
	defer cancel()
	done := &api.ErrandDone{Id: e.Id}
	var err error
	switch kind := e.Errand.Errand.(type) {
	case *api.Errand_DeleteBundles:
		done.Result, err = r.deleteBundles(ctx, kind.DeleteBundles)
	case *api.Errand_ListSession:
		done.Result, err = r.listSession(ctx, kind.ListSession)
	case *api.Errand_AbortUploads:
		done.Result, err = r.abortUploads(ctx, kind.AbortUploads)
	case *api.Errand_MarkBucket:
		done.Result = &api.ErrandDone_MarkedBucket{MarkedBucket: &api.MarkedBucket{}}
		err = r.cfg.MarkBucket(ctx)
	default:
		err = errUnknown
	}
	if err != nil {
		done.Result, done.Error = nil, api.CutErrandError(err.Error())
		r.metrics.errands.WithLabelValues(resultFailed).Inc()
		r.cfg.Log.Warn("errand failed", zap.Error(err))
	} else {
		r.metrics.errands.WithLabelValues(resultDone).Inc()
	}
	r.cfg.Owner.ErrandDone(done)
}

func (r *Runner) deleteBundles(ctx context.Context, e *api.DeleteBundles) (*api.ErrandDone_DeletedBundles, error) {
	names := make([]id.Bundle, len(e.Bundles))
	for i, b := range e.Bundles {
		names[i] = id.Bundle(b)
	}
	began := time.Now()
	failed, err := r.cfg.Bundles.DeleteBundles(ctx, names)
	if err != nil {
		return nil, err
	}
	deleted := &api.DeletedBundles{}
	for name, err := range failed {
		deleted.Failed = append(deleted.Failed, &api.FailedBundle{Bundle: uint64(name), Error: api.CutErrandError(err.Error())})
	}
	r.metrics.deleted.Add(float64(len(names) - len(failed)))
	r.metrics.failed.Add(float64(len(failed)))
	r.cfg.Log.Info("deleted bundles that the control plane named", zap.Int("objects", len(names)-len(failed)), zap.Int("failed", len(failed)),
		zap.Stringer("first", slices.Min(names)), zap.Stringer("last", slices.Max(names)), zap.Duration("took", time.Since(began)))
	return &api.ErrandDone_DeletedBundles{DeletedBundles: deleted}, nil
}

func (r *Runner) listSession(ctx context.Context, e *api.ListSession) (*api.ErrandDone_SessionObjects, error) {
	objects, err := r.cfg.Bundles.ListSession(ctx, id.Session(e.Session), e.AfterN)
	if err != nil {
		return nil, err
	}
	return &api.ErrandDone_SessionObjects{SessionObjects: objects}, nil
}

func (r *Runner) abortUploads(ctx context.Context, e *api.AbortUploads) (*api.ErrandDone_AbortedUploads, error) {
	began := time.Now()
	done, err := r.cfg.Bundles.AbortUploads(ctx, id.Session(e.Session))
	if err != nil {
		return nil, err
	}
	r.metrics.aborted.Add(float64(done.Aborted))
	if done.Aborted+done.Young > 0 {
		r.cfg.Log.Info("aborted unfinished uploads of a session that the control plane named", zap.Uint32("session", e.Session),
			zap.Uint32("uploads", done.Aborted), zap.Uint32("young", done.Young), zap.Duration("took", time.Since(began)))
	}
	return &api.ErrandDone_AbortedUploads{AbortedUploads: done}, nil
}
