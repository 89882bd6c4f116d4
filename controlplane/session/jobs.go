package session

import (
	"context"
	"errors"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	metajob "github.com/freshet-io/freshet/metadata/job"
)

// Jobs plans background jobs and takes what becomes of them, for one tenure (package controlplane/job).
type Jobs interface {
	// Begin takes over the jobs that are open in the state, before the owner runs.
	Begin(s *metadata.State)
	// Start plans jobs and hands them out until ctx ends. wait returns after the end.
	Start(ctx context.Context) (wait func())
	// Progress notes that a runner works on a job; bytes are those of the inputs worked off. False if the job has ended.
	// It must not block.
	Progress(runner, job id.Session, bytes int64) (open bool)
	// Complete takes a part of what a job has done from its runner; last ends it. A job that has ended is no error. Errors:
	// ErrBadRequest if the part is none or the job is another runner's, and those of proposing.
	Complete(ctx context.Context, runner, job id.Session, outcome []byte, last bool) error
	// Abort ends a job that its runner gives up. unreadable names the inputs that are the reason, if any. Errors as
	// of Complete.
	Abort(ctx context.Context, runner, job id.Session, reason string, unreadable metajob.Unreadable) error
}

// Runners are the agents connected to the owner as those who run jobs.
type Runners interface {
	// Connected tells whether there is a stream to an agent.
	Connected(runner id.Session) bool
	// Give sends a part of a job's plan; false if the agent is not connected. What is given may still be lost with its
	// stream.
	Give(runner, job id.Session, plan []byte, last bool) bool
	// Cancel tells an agent, if it is connected, that a job has ended.
	Cancel(runner, job id.Session)
}

// maxJobCalls bounds what one stream hands in of jobs and has no answer to.
const maxJobCalls = 16

// Connected implements Runners.
func (t *tenure) Connected(runner id.Session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.mu.agents[runner] != nil
}

// Give implements Runners.
func (t *tenure) Give(runner, job id.Session, plan []byte, last bool) bool {
	return t.sendTo(runner, &api.OwnerItem{Item: &api.OwnerItem_Job{Job: &api.Job{Job: uint32(job), Plan: plan, Last: last}}})
}

// Cancel implements Runners.
func (t *tenure) Cancel(runner, job id.Session) { t.sendTo(runner, cancelJobItem(job)) }

func (t *tenure) sendTo(session id.Session, item *api.OwnerItem) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.mu.agents[session]
	if a == nil {
		return false
	}
	a.out.push(item)
	return true
}

func cancelJobItem(job id.Session) *api.OwnerItem {
	return &api.OwnerItem{Item: &api.OwnerItem_CancelJob{CancelJob: &api.CancelJob{Job: uint32(job)}}}
}

// jobProgress passes a runner's sign of work on, and answers that a job has ended.
func (a *agent) jobProgress(p *api.JobProgress) {
	if a.t.jobs == nil || !a.t.jobs.Progress(a.session, id.Session(p.Job), int64(p.Bytes)) {
		a.out.push(cancelJobItem(id.Session(p.Job)))
	}
}

func (a *agent) completeJob(ctx context.Context, c *api.CompleteJob) {
	a.jobCall(ctx, c.Request, func(ctx context.Context) error {
		return a.t.jobs.Complete(ctx, a.session, id.Session(c.Job), c.Outcome, c.Last)
	})
}

func (a *agent) abortJob(ctx context.Context, c *api.AbortJob) {
	unreadable := metajob.Unreadable{Intact: c.Intact}
	for _, b := range c.Corrupt {
		unreadable.Bundles = append(unreadable.Bundles, id.Bundle(b))
	}
	a.jobCall(ctx, c.Request, func(ctx context.Context) error {
		return a.t.jobs.Abort(ctx, a.session, id.Session(c.Job), c.Reason, unreadable)
	})
}

// jobCall answers one call about a job, on a goroutine of the tenure. Runners wait for each answer, so calls of one job
// keep their order.
func (a *agent) jobCall(ctx context.Context, request uint64, do func(context.Context) error) {
	if a.t.jobs == nil {
		a.out.push(doneItem(request, fault(api.Error_INVALID, "no jobs are run here")))
		return
	}
	if a.jobCalls.Add(1) > maxJobCalls {
		a.jobCalls.Add(-1)
		a.out.push(doneItem(request, fault(api.Error_UNAVAILABLE, "too many parts of jobs under way")))
		return
	}
	spawned := a.t.spawn(func() {
		defer a.jobCalls.Add(-1)
		ctx, cancel := context.WithTimeout(ctx, a.t.limits.ProposeTimeout)
		defer cancel()
		err := do(ctx)
		if errors.Is(err, ErrBadRequest) {
			a.out.push(doneItem(request, fault(api.Error_INVALID, err.Error())))
			return
		}
		a.out.push(doneItem(request, commandFault(err)))
	})
	if !spawned { // the stream is about to end
		a.jobCalls.Add(-1)
	}
}
