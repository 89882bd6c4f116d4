package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// Runner runs jobs. OnJob and OnCancelJob make it a client.JobHandler; they do not wait.
type Runner struct {
	cfg     Config
	metrics *metrics

	mu struct {
		sync.Mutex
		running map[id.Session]context.CancelCauseFunc
		working int             // of them, those whose outcome is not there yet
		ctx     context.Context // of jobs; nil before Run, ended after it
		jobs    sync.WaitGroup
	}
}

// New checks the configuration.
func New(cfg Config) (*Runner, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("runner: %w", err)
	}
	r := &Runner{cfg: cfg}
	r.mu.running = make(map[id.Session]context.CancelCauseFunc)
	r.metrics = newMetrics(cfg.Registerer)
	return r, nil
}

var (
	errCancelled = errors.New("the owner has ended the job")
	errStopping  = errors.New("the agent stops")
	errBusy      = errors.New("the agent has enough jobs")
	errUnknown   = errors.New("the agent does not know this kind of job")
)

// Run takes jobs until ctx ends; then it gives up those that run, tells the owner, and waits for their ends.
func (r *Runner) Run(ctx context.Context) error {
	jobs, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	r.mu.Lock()
	r.mu.ctx = jobs
	r.mu.Unlock()
	<-ctx.Done()
	r.mu.Lock()
	stop(errStopping)
	r.mu.Unlock()
	r.mu.jobs.Wait()
	return nil
}

// OnJob begins a job, or gives it back if there are enough or the agent stops.
func (r *Runner) OnJob(plan *job.Plan) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.ctx == nil || r.mu.ctx.Err() != nil {
		return // the owner ends the job with the session, or after a minute
	}
	if _, twice := r.mu.running[plan.ID]; twice {
		return
	}
	var refusal error
	work := r.cfg.Work[plan.Kind]
	switch {
	case r.mu.working >= r.cfg.AtOnce:
		refusal = errBusy
	case work == nil:
		refusal = errUnknown
	}
	if refusal != nil {
		r.mu.jobs.Go(func() { r.giveUp(plan, refusal) })
		return
	}
	ctx, cancel := context.WithCancelCause(r.mu.ctx)
	r.mu.running[plan.ID] = cancel
	r.mu.working++
	r.mu.jobs.Go(func() {
		r.run(ctx, plan, work)
		cancel(nil)
		r.mu.Lock()
		delete(r.mu.running, plan.ID)
		r.mu.Unlock()
	})
}

// OnCancelJob ends a job that is not wanted any more.
func (r *Runner) OnCancelJob(n id.Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if cancel := r.mu.running[n]; cancel != nil {
		cancel(errCancelled)
	}
}

// run works a job off and hands in its outcome.
func (r *Runner) run(ctx context.Context, plan *job.Plan, work Work) {
	began := time.Now()
	var done atomic.Int64
	told := make(chan struct{})
	keep := r.keepTelling(plan.ID, &done, told)
	outcome, err := work(ctx, plan, func(bytes int64) { done.Store(bytes) })
	r.worked()
	if err == nil {
		err = r.handIn(ctx, plan.ID, &outcome)
	}
	close(told)
	keep.Wait()
	kind := plan.Kind.String()
	r.metrics.seconds.WithLabelValues(kind).Observe(time.Since(began).Seconds())
	if err == nil {
		r.metrics.jobs.WithLabelValues(kind, resultDone).Inc()
		r.metrics.count(kind, &done, &outcome)
		r.cfg.Log.Debug("job done", zap.Uint32("job", uint32(plan.ID)), zap.String("kind", kind),
			zap.Int("partitions", len(plan.Partitions)), zap.Int("objects", len(outcome.Bundles)))
		return
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	r.giveUp(plan, err)
}

// worked makes room for another job: the owner gives one as soon as it has taken the last part of an outcome, which is
// before the runner hears of that.
func (r *Runner) worked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.working--
}

// progressInterval is how often the owner is told that a job goes on. The owner gives up on a job after a minute of
// silence.
const progressInterval = 3 * time.Second

// keepTelling tells the owner in intervals that a job goes on, until told is closed.
func (r *Runner) keepTelling(n id.Session, done *atomic.Int64, told <-chan struct{}) *sync.WaitGroup {
	var g sync.WaitGroup
	r.cfg.Owner.JobProgress(n, 0)
	g.Go(func() {
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.cfg.Owner.JobProgress(n, done.Load())
			case <-told:
				return
			}
		}
	})
	return &g
}

// abortTimeout bounds the attempt to tell the owner that a job is given up. Otherwise the owner finds out by itself.
const abortTimeout = time.Second

// giveUp tells the owner that a job will not be done here, so that it need not wait to find out.
func (r *Runner) giveUp(plan *job.Plan, err error) {
	if errors.Is(err, errCancelled) {
		r.metrics.jobs.WithLabelValues(plan.Kind.String(), resultCancelled).Inc()
		return
	}
	r.metrics.jobs.WithLabelValues(plan.Kind.String(), resultFailed).Inc()
	var unreadable job.Unreadable
	if u := UnreadableInputs(nil); errors.As(err, &u) {
		unreadable = u.UnreadableInputs()
	}
	if !errors.Is(err, errStopping) && !errors.Is(err, errBusy) {
		r.cfg.Log.Warn("job given up", zap.Uint32("job", uint32(plan.ID)), zap.Stringer("kind", plan.Kind),
			zap.Int("unreadable_inputs", len(unreadable.Bundles)), zap.Error(err))
	}
	ctx, cancel := context.WithTimeout(context.Background(), abortTimeout)
	defer cancel()
	if err := r.cfg.Owner.AbortJob(ctx, plan.ID, err.Error(), unreadable); err != nil {
		r.cfg.Log.Debug("cannot abort job at the owner", zap.Uint32("job", uint32(plan.ID)), zap.Error(err))
	}
}
