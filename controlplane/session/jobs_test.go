package session_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// jobsWorld is a Jobs that notes what it hears, over all tenures.
type jobsWorld struct {
	runners session.Runners

	mu    sync.Mutex
	heard []string
	hang  chan struct{} // Complete waits for it, if it is not nil
	open  map[id.Session]bool
}

func (j *jobsWorld) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.heard = append(j.heard, fmt.Sprintf(format, args...))
}

func (j *jobsWorld) notes() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.heard...)
}

func (j *jobsWorld) Begin(*metadata.State) { j.note("begin") }

func (j *jobsWorld) Start(ctx context.Context) (wait func()) {
	return func() {
		<-ctx.Done()
		j.note("end")
	}
}

func (j *jobsWorld) Progress(runner, n id.Session, bytes int64) bool {
	j.note("progress of %d: %d", n, bytes)
	return j.open[n]
}

func (j *jobsWorld) Complete(ctx context.Context, runner, n id.Session, outcome []byte, last bool) error {
	j.note("complete %d of %d: %s, last %v", n, runner, outcome, last)
	if hang := j.hang; hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if len(outcome) == 0 {
		return fmt.Errorf("%w: nothing", session.ErrBadRequest)
	}
	return nil
}

func (j *jobsWorld) Abort(_ context.Context, runner, n id.Session, reason string, u job.Unreadable) error {
	j.note("abort %d of %d: %s, %v, intact %t", n, runner, reason, u.Bundles, u.Intact)
	return nil
}

func (w *world) withJobs(j *jobsWorld) {
	w.jobs = func(_ *owner.Owner, r session.Runners) session.Jobs {
		j.runners = r
		return j
	}
}

// runner hears of jobs beside what an agent hears of.
type runner struct {
	*agent
	plans    chan *job.Plan
	canceled chan id.Session
}

func (r *runner) OnJob(p *job.Plan)        { r.plans <- p }
func (r *runner) OnCancelJob(n id.Session) { r.canceled <- n }

func (w *world) runner() *runner {
	r := &runner{plans: make(chan *job.Plan, 8), canceled: make(chan id.Session, 8)}
	w.agent(func(c *client.Config) {
		r.agent = c.Handler.(*agent)
		c.Handler = r
	})
	return r
}

func planOf(n id.Session, partitions ...int32) []byte {
	p := job.Plan{ID: n, Kind: job.Compact, Level: 1}
	for _, number := range partitions {
		p.Partitions = append(p.Partitions, job.Partition{
			ID: id.TopicPartition{Partition: number}, Extents: []extent.Extent{{Last: 1, Length: 9, Batches: 1, Bundle: 5}},
		})
	}
	return job.AppendPlan(nil, &p)
}

func TestJobs_TravelBothWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, jobs := newWorld(t), &jobsWorld{open: map[id.Session]bool{7: true}}
		w.withJobs(jobs)
		n := w.start("a")
		r := w.runner()
		r.opened()
		require.True(t, jobs.runners.Connected(r.ID()))
		require.False(t, jobs.runners.Connected(r.ID()+1))
		require.False(t, jobs.runners.Give(r.ID()+1, 7, planOf(7, 0), true))

		require.True(t, jobs.runners.Give(r.ID(), 7, planOf(7, 0, 1), false))
		require.True(t, jobs.runners.Give(r.ID(), 7, planOf(7, 2), true))
		plan := <-r.plans
		require.Equal(t, id.Session(7), plan.ID)
		require.Len(t, plan.Partitions, 3)

		r.JobProgress(7, 100)
		r.JobProgress(8, 200)
		require.Equal(t, id.Session(8), <-r.canceled, "one that is not open")
		jobs.runners.Cancel(r.ID(), 7)
		require.Equal(t, id.Session(7), <-r.canceled)

		require.NoError(t, r.CompleteJob(t.Context(), 7, []byte("one"), false))
		require.ErrorIs(t, r.CompleteJob(t.Context(), 7, nil, true), client.ErrInvalid)
		require.NoError(t, r.AbortJob(t.Context(), 7, "why not", job.Unreadable{Bundles: []id.Bundle{3, 4}, Intact: true}))
		r.leave()
		w.stop(n)
		require.Equal(t, []string{
			"begin", "progress of 7: 100", "progress of 8: 200", "complete 7 of 1: one, last false", "complete 7 of 1: , last true",
			"abort 7 of 1: why not, [0/3 0/4], intact true", "end",
		}, jobs.notes())
	})
}

// A part that the owner did not answer is handed in again, to whoever is the owner then.
func TestJobs_PartsSurviveOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, jobs := newWorld(t), &jobsWorld{hang: make(chan struct{})}
		w.withJobs(jobs)
		first := w.start("a")
		w.waitFor("ownership", func() bool { return first.Owner() != nil })
		second := w.start("b")
		r := w.runner()
		r.opened()
		done := make(chan error, 1)
		go func() { done <- r.CompleteJob(t.Context(), 7, []byte("one"), true) }()
		w.waitFor("the part", func() bool { return len(jobs.notes()) == 2 })
		w.stop(first)
		w.waitFor("the part again", func() bool { return len(jobs.notes()) >= 5 })
		close(jobs.hang)
		require.NoError(t, <-done)
		require.Equal(t, []string{
			"begin", "complete 7 of 1: one, last true", "end", "begin", "complete 7 of 1: one, last true",
		}, jobs.notes())
		r.leave()
		w.stop(second)
	})
}

// An agent that floods the owner with parts is told to wait, and none of them is lost.
func TestJobs_CallsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, jobs := newWorld(t), &jobsWorld{hang: make(chan struct{})}
		w.withJobs(jobs)
		n := w.start("a")
		r := w.runner()
		r.opened()
		errs := make(chan error, 40)
		for range cap(errs) {
			go func() { errs <- r.CompleteJob(t.Context(), 7, []byte("p"), false) }()
		}
		time.Sleep(time.Second)
		require.Len(t, jobs.notes(), 1+16)
		close(jobs.hang)
		var all []error
		for range cap(errs) {
			all = append(all, <-errs)
		}
		require.NoError(t, errors.Join(all...))
		r.leave()
		w.stop(n)
	})
}
