package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// JobHandler is an optional part of a Handler, for agents with the jobs role. Jobs go on when a stream or a session
// ends; what became of them is found out by handing them in.
type JobHandler interface {
	// OnJob brings a job to run.
	OnJob(plan *job.Plan)
	// OnCancelJob tells that a job has ended without its runner, which may never have heard of it: what it has not
	// handed in is not wanted.
	OnCancelJob(n id.Session)
}

// MaxOutcomeBytes is the largest part of an outcome that CompleteJob takes. Parts should be far smaller: about 256 KiB
// are one entry of the metadata log.
const MaxOutcomeBytes = 8 << 20

// JobProgress says that the agent works on a job: bytes are those of its inputs worked off so far. It does not wait, and
// nothing is sent while there is no stream: the owner must hear of a job every minute, so say it every few seconds.
func (s *Session) JobProgress(n id.Session, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.stream != nil {
		s.mu.stream.out.push(&api.AgentItem{Item: &api.AgentItem_JobProgress{
			JobProgress: &api.JobProgress{Job: uint32(n), Bytes: uint64(bytes)},
		}})
	}
}

// CompleteJob hands in a part of what a job has done (package job's outcome encoding), in any session; last ends the job.
// The next part is handed in after the answer to this one. A job that has ended meanwhile takes nothing any more, which
// is no error. Errors: ErrUnavailable (hand the same part in again: that is harmless), ErrInvalid (the owner has aborted
// the job).
func (s *Session) CompleteJob(ctx context.Context, n id.Session, outcome []byte, last bool) error {
	if len(outcome) > MaxOutcomeBytes {
		return fmt.Errorf("%w: a part of %d bytes, at most %d", ErrInvalid, len(outcome), MaxOutcomeBytes)
	}
	_, err := s.submit(ctx, &call{
		item: &api.AgentItem{Item: &api.AgentItem_CompleteJob{CompleteJob: &api.CompleteJob{
			Job: uint32(n), Outcome: bytes.Clone(outcome), Last: last,
		}}},
		weight: int64(len(outcome)),
	})
	return err
}

// AbortJob gives a job up. unreadable names the inputs that are the reason, if any: the owner excludes these
// bundles from the jobs that it plans next. Errors: ErrUnavailable.
func (s *Session) AbortJob(ctx context.Context, n id.Session, reason string, unreadable job.Unreadable) error {
	abort := &api.AbortJob{Job: uint32(n), Reason: reason, Intact: unreadable.Intact}
	for _, b := range unreadable.Bundles {
		abort.Corrupt = append(abort.Corrupt, uint64(b))
	}
	_, err := s.submit(ctx, &call{item: &api.AgentItem{Item: &api.AgentItem_AbortJob{AbortJob: abort}}})
	return err
}

var errTornPlan = errors.New("parts of different jobs")

// plans puts the parts of plans together, on one stream.
type plans struct{ begun *job.Plan }

// add takes a part; the plan is there once it is whole.
func (p *plans) add(m *api.Job) (*job.Plan, error) {
	part, err := job.ParsePlan(m.Plan)
	if err != nil {
		return nil, err
	}
	if p.begun != nil && p.begun.ID == part.ID {
		p.begun.Partitions = append(p.begun.Partitions, part.Partitions...)
	} else {
		p.begun = part
	}
	if part.ID != id.Session(m.Job) {
		return nil, errTornPlan
	}
	if !m.Last {
		return nil, nil
	}
	whole := p.begun
	p.begun = nil
	return whole, nil
}

// job hands a job to the handler. One that it cannot read is not answered: the owner then takes it for lost.
func (s *Session) job(st *stream, m *api.Job) {
	h, ok := s.cfg.Handler.(JobHandler)
	if !ok {
		return
	}
	plan, err := st.plans.add(m)
	switch {
	case err != nil:
		s.log.Error("the plan of a background job cannot be read", zap.Uint32("job", m.Job), zap.Error(err))
	case plan != nil:
		h.OnJob(plan)
	}
}

func (s *Session) cancelJob(m *api.CancelJob) {
	if h, ok := s.cfg.Handler.(JobHandler); ok {
		h.OnCancelJob(id.Session(m.Job))
	}
}
