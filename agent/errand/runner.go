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
	// timeout is the maximum time of an errand. The owner waits no longer.
	timeout = 30 * time.Second
	// clockTimeout is the maximum time for the question after the store's time.
	clockTimeout = 5 * time.Second
)

var (
	errBusy     = errors.New("the agent has enough errands")
	errNoRole   = errors.New("the agent does not have the jobs role")
	errStopping = errors.New("the agent stops")
	errUnknown  = errors.New("the agent does not know this kind of errand")
)

// Owner takes the answers (client.Session).
type Owner interface{ ErrandDone(*api.ErrandDone) }

// Config of a Runner.
type Config struct {
	Owner Owner
	// Bundles are the bundles that errands delete; nil without the jobs role: all errands are refused.
	Bundles    *Bundles
	Log        *zap.Logger
	Registerer prometheus.Registerer
}

// Runner does errands. OnErrand makes it a client.ErrandHandler.
type Runner struct {
	cfg     Config
	metrics *metrics
	queue   chan *api.Errand
	stopped chan struct{} // closed when Run ends
}

// New returns a Runner that does nothing before Run.
func New(cfg Config) *Runner {
	cfg.Log = cmp.Or(cfg.Log, zap.NewNop())
	cfg.Registerer = cmp.Or[prometheus.Registerer](cfg.Registerer, prometheus.NewRegistry())
	return &Runner{cfg: cfg, metrics: newMetrics(cfg.Registerer), queue: make(chan *api.Errand, maxQueued), stopped: make(chan struct{})}
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
			r.refuse(e, errStopping)
		default:
			return nil
		}
	}
}

// OnErrand takes an errand, or refuses it. It does not block.
func (r *Runner) OnErrand(e *api.Errand) {
	if r.cfg.Bundles == nil {
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
	case r.queue <- e:
	default:
		r.refuse(e, errBusy)
	}
}

func (r *Runner) refuse(e *api.Errand, reason error) {
	r.metrics.errands.WithLabelValues(resultRefused).Inc()
	r.cfg.Owner.ErrandDone(&api.ErrandDone{Id: e.Id, Error: reason.Error()})
}

// run does an errand and answers it.
func (r *Runner) run(ctx context.Context, e *api.Errand) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	done := &api.ErrandDone{Id: e.Id}
	var err error
	switch kind := e.Errand.(type) {
	case *api.Errand_DeleteBundles:
		done.Result, err = r.deleteBundles(ctx, kind.DeleteBundles)
	default:
		err = errUnknown
	}
	if err != nil {
		done.Error = api.CutErrandError(err.Error())
		r.metrics.errands.WithLabelValues(resultFailed).Inc()
		r.cfg.Log.Warn("errand failed", zap.Error(err))
	} else {
		r.metrics.errands.WithLabelValues(resultDone).Inc()
		done.StoreNowMs = r.storeNow(ctx)
	}
	r.cfg.Owner.ErrandDone(done)
}

// storeNow returns the time of the store's clock in ms, 0 if it is unknown.
func (r *Runner) storeNow(ctx context.Context) int64 {
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	now, err := r.cfg.Bundles.Bucket.Now(ctx)
	if err != nil {
		return 0
	}
	return now.UnixMilli()
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
