package requests

import (
	"context"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/job/merge"
	"github.com/freshet-io/freshet/agent/job/runner"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore/bundle"
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

// compact runs a job and counts what it reads.
func (a *agent) compact(ctx context.Context, p *job.Plan, progress func(int64)) (job.Outcome, error) {
	w := a.w
	w.sorted.job(p.ID, p.Level)
	outcome, err := merge.Run(ctx, p, progress, merge.Env{
		Bucket: a.bucket, Prefix: prefix, Warm: memory{w, kind(p.Level)}, PartBytes: w.load.part,
		InFlight: w.load.inFlight,
	})
	if err == nil {
		for i := range p.Partitions {
			for j := range p.Partitions[i].Extents {
				w.rewritten[p.Level].Add(int64(p.Partitions[i].Extents[j].Length))
			}
		}
	}
	return outcome, err
}

// memory is what of a job's inputs the agents of a zone have in theirs: bundles as agents wrote them, for as long as what
// came after them fits beside them.
type memory struct {
	w     *world
	level kind
}

// Warm implements merge.Warm.
func (m memory) Warm(x *extent.Extent) (chunks [][]byte, release func(), ok bool) {
	if !m.w.inMemory(x.Bundle) {
		m.w.cold[m.level].Add(int64(x.Length))
		return nil, nil, false
	}
	o := m.w.store.find(bundle.Key(prefix, x.Bundle))
	return o.chunks(int64(x.Position), int64(x.Position)+int64(x.Length)), func() {}, true
}

// inMemory tells whether the agents of each zone have a bundle in memory as an agent wrote it: together they read all of
// the stream, and each keeps the end of it.
func (w *world) inMemory(b id.Bundle) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.mu.commits[b]
	if !ok {
		return false
	}
	age := time.Since(at)
	w.mu.oldest = max(w.mu.oldest, age)
	return age < w.load.remembered()
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
func (a *agent) AbortJob(ctx context.Context, n id.Session, reason string, corrupt []id.Bundle) error {
	if reason != "the agent stops" {
		a.w.t.Errorf("job %d given up: %s", n, reason)
	}
	return a.w.jobs.Abort(ctx, a.session, n, reason, corrupt)
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
