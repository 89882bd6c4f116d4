package metadata

import (
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// The submissions of a session are settled in order of n: those below nextN are, no other is.

// maxResults bounds the results kept per session. An agent has far fewer submissions unacknowledged; one that never
// acknowledges loses the oldest: they become Forgotten.
const maxResults = 4096

var (
	resultSessionClosed = &commit.Result{Status: commit.SessionClosed}
	resultAbandoned     = &commit.Result{Status: commit.Abandoned}
	resultForgotten     = &commit.Result{Status: commit.Forgotten}
)

// settled returns the result of a submission if it has one: its own, Forgotten, or SessionClosed. e is its session, nil if that
// is unknown or was closed long ago. A session whose orphans were swept answers SessionClosed to whatever it is asked: no agent
// asks so late.
func (s *machine) settled(sub id.Submission, e *session) (*commit.Result, bool) {
	var nextN uint32
	closed := true
	switch {
	case e != nil:
		if r, ok := e.results.Get(sub.N); ok {
			return r, true
		}
		nextN, closed = e.nextN, e.closed
	case s.noSession(sub.Session) != nil:
		return nil, false
	default:
		w, _ := s.ended.Get(sub.Session)
		nextN = w.nextN
	}
	switch {
	case sub.N < nextN:
		return resultForgotten, true
	case closed:
		return resultSessionClosed, true
	}
	return nil, false
}

// settle stores the result of the session's next submission.
func (e *session) settle(r *commit.Result) {
	e.results.Set(e.nextN, r)
	e.nextN++
	if e.results.Len() > maxResults {
		e.results.PopMin()
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
func (s *machine) abandon(c *AbandonSubmission, _ *Effects) (*commit.Result, error) {
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
	s.mutableSession(c.Submission.Session, e).settle(resultAbandoned)
	return resultAbandoned, nil
}

// Settled gives the result of a submission, if it has one: what it was settled with, Forgotten, or SessionClosed.
// false means it may still be committed, or its session was never opened.
func (s *machine) Settled(sub id.Submission) (*commit.Result, bool) {
	e, _ := s.sessions.Get(sub.Session)
	return s.settled(sub, e)
}
