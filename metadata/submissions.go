package metadata

import (
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// A session's submissions settle in order of n: exactly those below nextN are settled.

// maxResults is the maximum number of results kept per session. If an agent never acknowledges, its oldest results become Forgotten.
const maxResults = 4096

var (
	resultSessionClosed = &commit.Result{Status: commit.SessionClosed}
	resultAbandoned     = &commit.Result{Status: commit.Abandoned}
	resultForgotten     = &commit.Result{Status: commit.Forgotten}
)

// settled returns the result of a submission, or false if it may still be committed. e is the submission's session, or nil if the
// table has none. After the session's orphan sweep every result is SessionClosed, even for a committed submission: no agent asks so late.
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

// abandon settles a submission that will never come. If earlier submissions are unsettled, it returns ErrEarly.
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

// Settled returns the result of a submission: its stored one, Forgotten, or SessionClosed. It returns false if the submission may still be
// committed, or if its session was never opened.
func (s *machine) Settled(sub id.Submission) (*commit.Result, bool) {
	e, _ := s.sessions.Get(sub.Session)
	return s.settled(sub, e)
}
