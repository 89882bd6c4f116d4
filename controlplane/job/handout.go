package job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// handOut opens a job and sends its plan. The job comes first: a plan that is lost is a job that expires, a plan without
// a job would be work for nothing. handOut returns a nil lease if the state
// has changed since planning or the runner is gone. No job is open then.
func (t *Tenure) handOut(ctx context.Context, o *order) (*lease, error) {
	proposing, cancel := context.WithTimeout(ctx, proposeTimeout)
	defer cancel()
	result, _, err := t.owner.Propose(proposing, o.start)
	switch {
	case err != nil:
		return nil, fmt.Errorf("start a job: %w", err)
	case errors.Is(result.Err, metadata.ErrSessionClosed), errors.Is(result.Err, metadata.ErrJobConflict),
		errors.Is(result.Err, metadata.ErrConfigsChanged):
		return nil, nil //nolint:nilnil // the next round sees it
	case result.Err != nil:
		return nil, fmt.Errorf("start a job: %w", result.Err)
	}
	l := t.opened(result.Value.(id.Session), o)
	t.metrics.startedJob(&l.JobInfo)
	t.log.Debug("background job started", append(describe(l), zap.Int("partitions", len(o.partitions)))...)
	if t.send(l, o) {
		return l, nil
	}
	if err := t.abort(proposing, l.ID); err != nil {
		return nil, err
	}
	t.drop(l, false, "its runner was gone")
	t.metrics.aborted.WithLabelValues(abortedBySession).Inc()
	return nil, nil //nolint:nilnil // the next round sees it
}

// pick returns the runner with the fewest jobs that can be given one of the class and is not among except, of equals the one that was
// given one longest ago; nil if none is free.
func (t *Tenure) pick(runners []runner, class int, except map[id.Session]bool) (best *runner) {
	for i := range runners {
		r := &runners[i]
		switch {
		case r.jobs >= t.settings.PerAgent, r.paused[class], except[r.session]:
		case best == nil, r.jobs < best.jobs, r.jobs == best.jobs && t.given[r.session] < t.given[best.session]:
			best = r
		}
	}
	return best
}

// opened keeps a job that was just started. Its runner has to speak soon.
func (t *Tenure) opened(n id.Session, o *order) *lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	l := &lease{
		JobInfo: metadata.JobInfo{
			ID: n, Kind: o.start.Kind, Level: o.start.Level, Runner: o.start.Runner, First: o.start.First, Last: o.start.Last,
			Inputs: o.start.Inputs, StartedMs: now.UnixMilli(),
		},
		class: o.class, bytes: o.bytes, heard: now, moved: now, until: now.Add(min(startLease, t.settings.Lease)),
	}
	if o.start.Clean != nil {
		l.Clean = &o.start.Clean.Bounds
	}
	t.mu.leases[n] = l
	return l
}

// send gives the runner the plan part by part; false if it is gone.
func (t *Tenure) send(l *lease, o *order) bool {
	for part := range parts(o.partitions) {
		encoded := job.AppendPlan(nil, &job.Plan{ID: l.ID, Kind: o.plan, Level: l.Level, Partitions: part})
		last := &part[len(part)-1] == &o.partitions[len(o.partitions)-1]
		if !t.runners.Give(l.Runner, l.ID, encoded, last) {
			return false
		}
	}
	return true
}

// parts cuts partitions into runs of about partExtents extents.
func parts(partitions []job.Partition) func(yield func([]job.Partition) bool) {
	return func(yield func([]job.Partition) bool) {
		for len(partitions) > 0 {
			extents := 0
			n := 1 + slices.IndexFunc(partitions, func(p job.Partition) bool {
				extents += len(p.Extents)
				return extents >= partExtents
			})
			if n == 0 {
				n = len(partitions)
			}
			if !yield(partitions[:n]) {
				return
			}
			partitions = partitions[n:]
		}
	}
}
