package session

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// lookEvery is how often sessions are looked at while one of them may have to be closed, hidden, or shown again.
	lookEvery = hideAfter / 4
	// restFor is the maximum pause of the looks. A process that is stopped for less within a pause does not notice. So the looks begin again
	// restMargin before a session may be silent for too long: a stopped process then reads the messages that wait, before it closes a session.
	restFor    = 10 * time.Second
	restMargin = time.Second
	// toldRest is the maximum time until the next probe of an agent whose probes have no next_ms. maxRest is the maximum of next_ms.
	toldRest = time.Second
	maxRest  = api.MaxRest
)

// deadline returns the time at which a session is closed if its agent stays silent until then: the session time-out after its last message. The agent
// of an idle session has the time until its next probe in addition, but at most the session time-out after its stream broke.
func (t *tenure) deadline(open *openSession) time.Time {
	due := open.heard.Add(t.limits.SessionTimeout)
	if open.rests <= toldRest {
		return due
	}
	due = due.Add(open.rests)
	if broke := open.broke.Add(t.limits.SessionTimeout); !open.broke.IsZero() && broke.Before(due) {
		return broke
	}
	return due
}

// watch looks at the sessions until the tenure ends. It closes sessions whose agent was silent for the session time-out, connected or not. It
// hides agents whose stream with this owner broke or whose address a newer process has, and shows agents again that come back. Their sessions
// stay as they are (I9). Any other agent without a stream since the tenure began may be on its way to the owner.
//
// While a process is stopped, messages of agents wait to be read, and agents cannot come back. This time, late, counts for no agent.
func (t *tenure) watch() (wait func()) {
	last, pause := time.Now(), lookEvery
	t.looks.Start(t.ctx, pause, func(context.Context) time.Duration {
		now := time.Now()
		late := max(0, now.Sub(last)-pause-lookEvery)
		for _, session := range t.silent(now, late) {
			t.spawn(func() { t.closeSilent(session) })
		}
		for _, c := range t.unseen(now, late) {
			t.spawn(func() { t.hide(c) })
		}
		last, pause = now, t.rest(now)
		return pause
	})
	return t.looks.Wait
}

// rest returns the pause before the next look, which is longer if all agents are connected and shown. A stream that breaks ends it.
func (t *tenure) rest(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	pause := restFor
	for session, open := range t.mu.sessions {
		if t.mu.agents[session] == nil || open.hidden {
			return lookEvery
		}
		pause = min(pause, max(lookEvery, t.deadline(open).Add(-restMargin).Sub(now)))
	}
	return pause
}

// silent returns each session whose deadline is over, once. late is the time for which this process was stopped.
func (t *tenure) silent(now time.Time, late time.Duration) []id.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	var silent []id.Session
	for session, open := range t.mu.sessions {
		open.heard = open.heard.Add(late)
		if !open.broke.IsZero() {
			open.broke = open.broke.Add(late)
		}
		if !open.closing && now.After(t.deadline(open)) {
			open.closing = true
			silent = append(silent, session)
		}
	}
	return silent
}

// closeSilent closes a session by command. Its agent may come back meanwhile: it then finds the session closed.
func (t *tenure) closeSilent(session id.Session) {
	t.log.Info("agent session closed: its agent was silent", zap.Uint32("session", uint32(session)))
	t.metrics.closed.Inc()
	if _, err := t.propose(t.ctx, &metadata.CloseSession{Session: session}); err == nil {
		return // announce has dropped it
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if open := t.mu.sessions[session]; open != nil {
		open.closing = false // the next round tries again
	}
}
