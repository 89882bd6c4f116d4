package metadata

import (
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// The submissions of a session are settled in order of n, but for those whose agent says that they may overtake others
// (commit.Header.Overtakes): they depend on none of those that are missing. Their results lie above nextN, which moves over
// them once the holes below are settled.

const (
	// MaxAhead is how far above the lowest n that is not settled one can be settled: n below that + MaxAhead. An agent has
	// far fewer submissions on their way (256).
	MaxAhead = 1024
	// maxResults bounds the results kept per session. An agent has far fewer submissions unacknowledged; one that never
	// acknowledges loses the oldest (they become Forgotten), never one above a hole: it is above MaxAhead.
	maxResults = 4096
)

var (
	resultSessionClosed = &commit.Result{Status: commit.SessionClosed}
	resultAbandoned     = &commit.Result{Status: commit.Abandoned}
	resultForgotten     = &commit.Result{Status: commit.Forgotten}
)

// settled gives the result of a submission if it has one: its own, Forgotten, or SessionClosed. e is its session, nil
// if that is unknown.
func (s *machine) settled(sub id.Submission, e *session) (*commit.Result, bool) {
	var nextN uint32
	closed := true
	if e != nil {
		if r, ok := e.results.Get(sub.N); ok {
			return r, true
		}
		nextN, closed = e.nextN, e.closed
	} else if n, ok := s.retired.Get(sub.Session); ok {
		nextN = n
	} else {
		return nil, false
	}
	switch {
	case sub.N < nextN:
		return resultForgotten, true
	case closed:
		return resultSessionClosed, true
	}
	return nil, false
}

// early tells whether a submission that is not settled cannot be yet.
func early(h *commit.Header, e *session) bool {
	n := h.Submission.N
	return n > e.nextN && (!h.Overtakes || n-e.nextN >= MaxAhead)
}

// settle stores the result of a submission.
func (e *session) settle(n uint32, r *commit.Result) {
	e.results.Set(n, r)
	for ok := n == e.nextN; ok; _, ok = e.results.Get(e.nextN) {
		e.nextN++
	}
	if e.results.Len() > maxResults {
		e.results.PopMin()
	}
}

// ahead gives the submissions that overtook others which are not settled.
func (e *session) ahead() (list []uint32) {
	if n, _, ok := e.results.Max(); ok && n > e.nextN {
		e.results.Ascend(e.nextN, func(n uint32, _ *commit.Result) bool {
			list = append(list, n)
			return true
		})
	}
	return list
}

// settleHoles settles what was overtaken in a session that is being closed, and so never comes. NextN alone is kept of a
// session in the end: it must not say of what is settled that it is not.
func (e *session) settleHoles() {
	for n, _, ok := e.results.Max(); ok && n > e.nextN; {
		e.settle(e.nextN, resultSessionClosed)
	}
}

// acknowledge drops the results that the agent has received.
func (e *session) acknowledge(acked uint32) {
	for {
		n, _, ok := e.results.Min()
		if !ok || n > acked {
			return
		}
		e.results.PopMin()
	}
}

// abandon settles a submission that will never come, in its turn.
func (s *machine) abandon(c *AbandonSubmission) (*commit.Result, error) {
	e, _ := s.sessions.Get(c.Submission.Session)
	if r, ok := s.settled(c.Submission, e); ok {
		return r, nil
	}
	if e == nil {
		return nil, ErrUnknownSession
	}
	if c.Submission.N > e.nextN {
		return nil, ErrEarly
	}
	s.mutableSession(c.Submission.Session, e).settle(c.Submission.N, resultAbandoned)
	return resultAbandoned, nil
}

// Settled gives the result of a submission, if it has one: what it was settled with, Forgotten, or SessionClosed.
// false means it may still be committed, or its session was never opened.
func (s *machine) Settled(sub id.Submission) (*commit.Result, bool) {
	e, _ := s.sessions.Get(sub.Session)
	return s.settled(sub, e)
}
