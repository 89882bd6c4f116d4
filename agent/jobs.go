package agent

import (
	"context"

	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/agent/errand"
	"github.com/freshet-io/freshet/agent/job/clean"
	"github.com/freshet-io/freshet/agent/job/merge"
	"github.com/freshet-io/freshet/agent/job/runner"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// Shares of a job's memory, in percent. Compaction has parts of its upload and buffers of its inputs; cleaning goes over its
// inputs the fewer times the more keys it can note.
const (
	mergePartsPercent   = 80
	mergeBuffersPercent = 100 - mergePartsPercent
	cleanKeysPercent    = 70
	cleanPartsPercent   = 100 - cleanKeysPercent
)

// How many parts of an upload go side by side. At the rate of a connection, 85 MiB/s and less, one of them is half of what
// an agent must rewrite that takes in as much, and two are a little too few (bench/requests).
const (
	fewestParts = 3
	mostParts   = 4
)

// partsWithin divides memory between the parts of an upload. Parts are as large as may be, since they are what compaction
// costs: four go side by side only where there is room for that many of them, three where they are as large as the least.
func partsWithin(bytes int64) (size, inFlight int) {
	inFlight = int(min(max(bytes/bundle.DefaultPartBytes-1, fewestParts), mostParts, max(bytes/objstore.MinPart-1, 1)))
	return int(min(max(bytes/int64(inFlight+1), objstore.MinPart), bundle.DefaultPartBytes)), inFlight
}

// buildJobs builds what runs background jobs, if the agent has the role.
func (a *Agent) buildJobs(context.Context) (err error) {
	if !a.cfg.hasRole(RoleJobs) {
		return nil
	}
	share := func(percent int64) int64 { return a.budgets.jobs / 100 * percent }
	part, inFlight := partsWithin(share(mergePartsPercent))
	cleanPart, cleanInFlight := partsWithin(share(cleanPartsPercent))
	merges, cleans := merge.NewMetrics(a.cfg.Registry), clean.NewMetrics(a.cfg.Registry)
	merging := func(ctx context.Context, p *job.Plan, progress func(int64)) (job.Outcome, error) {
		return merge.Run(ctx, p, progress, merge.Env{
			Bucket: a.bucket, Prefix: a.listeners.bundlePrefix(), PartBytes: part, InFlight: inFlight,
			BuffersBytes: int(share(mergeBuffersPercent)), Log: a.log.Named("merge"), Metrics: merges,
		})
	}
	a.listeners.runner, err = runner.New(runner.Config{
		Owner: a.session, Log: a.log.Named("jobs"), Registerer: a.cfg.Registry,
		Work: map[job.Kind]runner.Work{
			job.Compact: merging, job.Cut: merging,
			job.Clean: func(ctx context.Context, p *job.Plan, progress func(int64)) (job.Outcome, error) {
				return clean.Run(ctx, p, progress, clean.Env{
					Bucket: a.bucket, Prefix: a.listeners.bundlePrefix(), MapBytes: share(cleanKeysPercent),
					Output: bundle.WriterConfig{PartBytes: cleanPart, InFlight: cleanInFlight},
					Log:    a.log.Named("clean"), Metrics: cleans,
				})
			},
		},
	})
	return err
}

// buildErrands builds the runner of errands. Without the jobs role it refuses all of them but MarkBucket.
func (a *Agent) buildErrands(context.Context) error {
	cfg := errand.Config{
		Owner: a.session, Ready: a.owned.ready, MarkBucket: a.owned.markAgain, Log: a.log.Named("errands"), Registerer: a.cfg.Registry,
	}
	if a.cfg.hasRole(RoleJobs) {
		cfg.Bundles = &errand.Bundles{
			Bucket: a.bucket, Prefix: a.listeners.bundlePrefix, MinAge: a.cfg.DeleteMinAge,
			Rate: rate.NewLimiter(rate.Limit(a.cfg.DeleteRate), objstore.MaxKeys),
		}
	}
	a.listeners.errands = errand.New(cfg)
	return nil
}

// runJobs runs jobs until ctx ends; without the role there are none.
func (a *Agent) runJobs(ctx context.Context) error {
	if a.listeners.runner == nil {
		<-ctx.Done()
		return nil
	}
	return a.listeners.runner.Run(ctx)
}

var (
	_ client.JobHandler    = (*listeners)(nil)
	_ client.ErrandHandler = (*listeners)(nil)
)

// OnErrand brings an errand.
func (l *listeners) OnErrand(e *api.Errand) { l.errands.OnErrand(e) }

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
