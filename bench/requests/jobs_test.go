package requests

import (
	"context"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/job/merge"
	"github.com/freshet-io/freshet/agent/job/runner"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// buildRunner builds what runs jobs as package agent does.
func (a *agent) buildRunner() {
	var err error
	a.runner, err = runner.New(runner.Config{
		Owner: a, Registerer: a.registry, Work: map[job.Kind]runner.Work{job.Compact: a.compact},
		AtOnce: 2, // the next may come before the answer that the one before has ended
	})
	require.NoError(a.w.t, err)
}

// compact runs a job and counts the bytes of its inputs, whose GETs it makes at once.
func (a *agent) compact(ctx context.Context, p *job.Plan, progress func(int64)) (job.Outcome, error) {
	w := a.w
	w.sorted.job(p.ID, p.Level)
	for i := range p.Partitions {
		for j := range p.Partitions[i].Extents {
			w.inputs[p.Level].Add(int64(p.Partitions[i].Extents[j].Length))
		}
	}
	return merge.Run(ctx, p, progress, merge.Env{
		Bucket: a.bucket, Prefix: prefix, PartBytes: w.load.part, InFlight: w.load.inFlight,
	})
}

// JobProgress implements runner.Owner.
func (a *agent) JobProgress(n id.Session, bytes int64) {
	if !a.w.jobs.Progress(a.session, n, bytes) {
		a.runner.OnCancelJob(n)
	}
}

// CompleteJob implements runner.Owner.
func (a *agent) CompleteJob(ctx context.Context, n id.Session, outcome []byte, last bool) error {
	return a.w.jobs.Complete(ctx, a.session, n, outcome, last)
}

// AbortJob implements runner.Owner.
func (a *agent) AbortJob(ctx context.Context, n id.Session, reason string, unreadable job.Unreadable) error {
	if reason != "the agent stops" {
		a.w.t.Errorf("job %d given up: %s", n, reason)
	}
	return a.w.jobs.Abort(ctx, a.session, n, reason, unreadable)
}

// of gives the agent of a session, nil if there is none.
func (w *world) of(n id.Session) *agent {
	for _, a := range w.agents {
		if a.session == n {
			return a
		}
	}
	return nil
}

// Connected implements job.Runners.
func (w *world) Connected(n id.Session) bool { return w.started.Load() && w.of(n) != nil }

// Give implements job.Runners.
func (w *world) Give(to, _ id.Session, encoded []byte, last bool) bool {
	part, err := job.ParsePlan(encoded)
	if err != nil {
		w.t.Error(err)
		return false
	}
	a := w.of(to)
	if a.parts.ID != part.ID {
		a.parts = job.Plan{}
	}
	part.Partitions = append(a.parts.Partitions, part.Partitions...)
	a.parts = *part
	if last {
		a.runner.OnJob(part)
		a.parts = job.Plan{}
	}
	return true
}

// Cancel implements job.Runners.
func (w *world) Cancel(to, n id.Session) { w.of(to).runner.OnCancelJob(n) }
