package session

import (
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// abandonBytes is what a held abandon counts.
const abandonBytes = 64

// answerTo gives the function that answers a commit or abandon on this stream. Answers to a stream that ended go
// nowhere: the agent asks again on its next one.
func (a *agent) answerTo(request uint64) answerFunc {
	return func(result *commit.Result, index uint64, f *api.Error) {
		var encoded []byte
		if f == nil {
			encoded = commit.AppendResult(nil, result)
		}
		a.out.push(commitItem(request, encoded, index, f))
	}
}

// commit takes a submission: validated, it goes into the session's order, or to the parking if it is a resubmission.
func (a *agent) commit(c *api.Commit) {
	answer := a.answerTo(c.Request)
	r, err := parseSubmission(c.Encoded)
	if err != nil {
		a.t.metrics.commits.WithLabelValues(resultInvalid).Inc()
		answer(nil, 0, fault(api.Error_INVALID, err.Error()))
		return
	}
	h := r.Header()
	switch {
	case h.Submission.Session != a.session:
		a.elsewhere(h, answer)
	case h.Resubmit:
		a.t.resubmit(r, c.Encoded, answer)
	default:
		a.commits.submit(submission{
			n: h.Submission.N, command: &metadata.CommitBundle{Encoded: c.Encoded}, bytes: len(c.Encoded), until: c.UntilMs,
			stream: a.stream,
		}, answer)
	}
}

// parseSubmission validates a submission before the log. Apply looks a topic up once per entry of the dictionary. If two entries
// named one topic, the second one's sections could overwrite those of the first, so such a submission is refused.
func parseSubmission(encoded []byte) (*commit.Reader, error) {
	r, err := commit.Parse(encoded)
	if err != nil {
		return nil, err
	}
	return r, r.DistinctTopics()
}

// elsewhere answers a commit of another session: what it was settled with, if that session was closed (I9). An agent
// asks this way about commits whose answer was lost with their session.
func (a *agent) elsewhere(h commit.Header, answer answerFunc) {
	var result *commit.Result
	index, err := a.t.owner.Read(func(s *metadata.State) {
		if info, ok := s.Session(h.Submission.Session); ok && !info.Closed {
			return
		}
		settled, ok := s.Settled(h.Submission)
		switch {
		case !ok:
		case h.Resubmit: // what the first submission got says nothing of the batches handed in again
			result = &commit.Result{Status: commit.SessionClosed}
		default:
			result = settled
		}
	})
	switch {
	case err != nil:
		answer(nil, 0, commandFault(err))
	case result == nil:
		a.t.metrics.commits.WithLabelValues(resultInvalid).Inc()
		answer(nil, 0, fault(api.Error_INVALID, "the commit is of a session that is not this stream's"))
	default:
		answer(result, index, nil)
	}
}

// abandon settles a submission that will not come, in its turn.
func (a *agent) abandon(c *api.Abandon) {
	if c.N == 0 {
		a.answerTo(c.Request)(nil, 0, fault(api.Error_INVALID, "submissions count from 1"))
		return
	}
	if of := id.Session(c.Session); of != 0 && of != a.session { // handed in as its session was closed
		a.answerTo(c.Request)(&commit.Result{Status: commit.SessionClosed}, 0, nil)
		return
	}
	command := &metadata.AbandonSubmission{Submission: id.Submission{Session: a.session, N: c.N}}
	a.commits.submit(submission{n: c.N, command: command, bytes: abandonBytes, stream: a.stream}, a.answerTo(c.Request))
}
