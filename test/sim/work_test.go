package sim

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/job"
	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/objstore"
)

// work is what runs beside owners besides the planner of jobs. The cluster's time is faster than the wall's, because what
// deletes waits ten minutes at least. Clients' and leases' time is not.
type work struct {
	lifecycle lifecycle.Settings
	speed     int // of the cluster's time

	began      time.Time
	registries struct {
		sync.Mutex
		all []*prometheus.Registry
	}
}

// hasty is work that leaves nothing lying about.
func hasty() *work {
	return &work{
		began: time.Now(), speed: 60,
		lifecycle: lifecycle.Settings{
			RetentionCheck: 300 * time.Millisecond, GarbageCheck: 300 * time.Millisecond, GarbageGrace: 10 * time.Minute,
		},
	}
}

// incessantJobs are planned by thresholds so small that jobs run all the time.
func incessantJobs() *job.Settings {
	return &job.Settings{
		Interval: 500 * time.Millisecond, Lease: 15 * time.Second,
		First:     job.FirstLevel{Bundles: 16, Bytes: 64 << 10, Age: time.Second},
		Second:    job.SecondLevel{Bytes: 4 << 10, Extents: 4, Age: 3 * time.Second, JobBytes: 256 << 10, FinalBytes: 16 << 10},
		DeadBytes: 1 << 10,
	}
}

// at gives a moment by the cluster's time.
func (w *work) at(t time.Time) time.Time { return w.began.Add(t.Sub(w.began) * time.Duration(w.speed)) }

func (w *work) now() time.Time { return w.at(time.Now()) }

// stretch gives a time-out by the cluster's time, at most the longest that Kafka's brokers allow.
func (w *work) stretch(d time.Duration) time.Duration {
	if w == nil {
		return d
	}
	return min(d*time.Duration(w.speed), 15*time.Minute)
}

// fast is a bucket whose listings have the cluster's time.
type fast struct {
	objstore.Bucket
	w *work
}

func (f fast) List(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.Info, error) {
	page, err := f.Bucket.List(ctx, prefix, startAfter, limit)
	for i := range page {
		page[i].Modified = f.w.at(page[i].Modified)
	}
	return page, err
}

// registry gives one for the planner of a replica that starts.
func (w *work) registry() prometheus.Registerer {
	if w == nil {
		return nil
	}
	w.registries.Lock()
	defer w.registries.Unlock()
	r := prometheus.NewRegistry()
	w.registries.all = append(w.registries.all, r)
	return r
}

func (w *work) join(c *cluster, cfg *replica.Config, a lifecycle.Agents) {
	if w == nil {
		return
	}
	l, err := lifecycle.New(lifecycle.Config{
		Settings: w.lifecycle, Agents: a, StoreTime: func(context.Context) (time.Time, error) { return w.now(), nil }, Log: c.logger,
	})
	require.NoError(c.t, err)
	cfg.Owner.Now, cfg.MaxSkew, cfg.Tick = w.now, 1000*time.Hour, 300*time.Millisecond
	cfg.Beside = func(ctx context.Context, t replica.Tenure) (wait func()) {
		return l.Start(ctx, lifecycle.Tenure{Owner: t.Owner, Kept: t.Kept, WantSnapshot: t.WantSnapshot})
	}
}

// counted sums a metric of the planners of all replicas, those that ended too, by a label's value; "" sums all.
func (c *cluster) counted(name, label, value string) (sum float64) {
	c.t.Helper()
	w := c.opts.work
	w.registries.Lock()
	defer w.registries.Unlock()
	for _, r := range w.registries.all {
		families, err := r.Gather()
		require.NoError(c.t, err)
		for _, f := range families {
			if f.GetName() != name {
				continue
			}
			for _, m := range f.Metric {
				fits := value == ""
				for _, l := range m.Label {
					fits = fits || l.GetName() == label && l.GetValue() == value
				}
				if fits {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

// done counts the jobs that were completed, by the level that they wrote, or kind.
func (c *cluster) done(label, value string) float64 {
	return c.counted("freshet_jobs_completed_total", label, value)
}
