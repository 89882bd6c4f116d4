package agent

import (
	"context"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/job/clean"
	"github.com/freshet-io/freshet/agent/job/merge"
	"github.com/freshet-io/freshet/agent/job/runner"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// buildJobs builds what runs background jobs, if the agent has the role. A job's memory is two parts of its upload, one
// being filled and one on its way, and buffers of its inputs, or keys. Compaction moves much, in parts as large as may
// be, since they are what it costs; cleaning goes over its inputs the fewer times the more keys it can note.
func (a *Agent) buildJobs(context.Context) (err error) {
	if !a.cfg.hasRole(RoleJobs) {
		return nil
	}
	part := func(percent int64) int {
		return int(min(max(a.budgets.jobs/100*percent, objstore.MinPart), bundle.DefaultPartBytes))
	}
	merges, cleans := merge.NewMetrics(a.cfg.Registry), clean.NewMetrics(a.cfg.Registry)
	a.listeners.runner, err = runner.New(runner.Config{
		Owner: a.session, Log: a.log.Named("jobs"), Registerer: a.cfg.Registry,
		Work: map[job.Kind]runner.Work{
			job.Compact: func(ctx context.Context, p *job.Plan, progress func(int64)) (job.Outcome, error) {
				return merge.Run(ctx, p, progress, merge.Env{
					Bucket: a.inputs(p), Prefix: a.listeners.bundlePrefix(), Warm: warm{a.cache}, PartBytes: part(40),
					BuffersBytes: int(a.budgets.jobs / 100 * 20), Log: a.log.Named("merge"), Metrics: merges,
				})
			},
			job.Clean: func(ctx context.Context, p *job.Plan, progress func(int64)) (job.Outcome, error) {
				return clean.Run(ctx, p, progress, clean.Env{
					Bucket: a.bucket, Prefix: a.listeners.bundlePrefix(), Output: bundle.WriterConfig{PartBytes: part(15)},
					MapBytes: a.budgets.jobs / 100 * 70, Log: a.log.Named("clean"), Metrics: cleans,
				})
			},
		},
	})
	return err
}

// runJobs runs jobs until ctx ends; without the role there are none.
func (a *Agent) runJobs(ctx context.Context) error {
	if a.listeners.runner == nil {
		<-ctx.Done()
		return nil
	}
	return a.listeners.runner.Run(ctx)
}

var _ client.JobHandler = (*listeners)(nil)

// OnJob brings a background job.
func (l *listeners) OnJob(plan *job.Plan) {
	if l.runner != nil {
		l.runner.OnJob(plan)
	}
}

// OnCancelJob ends a background job.
func (l *listeners) OnCancelJob(n id.Session) {
	if l.runner != nil {
		l.runner.OnCancelJob(n)
	}
}

// warm is what of a job's inputs is in memory.
type warm struct{ cache *cache.Cache }

// Warm implements merge.Warm. Bytes that are not what the metadata says are left to the object store's to be judged.
func (w warm) Warm(x *extent.Extent) (chunks [][]byte, release func(), ok bool) {
	b, ok, err := w.cache.Resident(x)
	if !ok || err != nil {
		return nil, nil, false
	}
	return b.Append(nil, 0, b.Size()), b.Release, true
}
