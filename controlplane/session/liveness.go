package session

import (
	"context"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/internal/periodic"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// every calls a function at intervals until the tenure ends. wait returns after the last call. A process that was stopped for a while has heard nobody, their
// messages may be waiting to be read, and nobody could come back to it: that time, late, counts for no agent.
func (t *tenure) every(interval time.Duration, look func(now time.Time, late time.Duration)) (wait func()) {
	last := time.Now()
	return periodic.Every(t.ctx, interval, func(context.Context) {
		now := time.Now()
		look(now, max(0, now.Sub(last)-2*interval))
		last = now
	}).Wait
}

// watchSessions closes sessions whose agent was silent for the session time-out, connected or not.
func (t *tenure) watchSessions() (wait func()) {
	return t.every(t.limits.SessionTimeout/10, func(now time.Time, late time.Duration) {
		for _, session := range t.silent(now, late) {
			t.spawn(func() { t.closeSilent(session) })
		}
	})
}

// silent gives the sessions not heard of for the time-out, once each.
func (t *tenure) silent(now time.Time, late time.Duration) []id.Session {
	t.mu.Lock()
	defer t.mu.Unlock()
	var silent []id.Session
	for session, open := range t.mu.sessions {
		open.heard = open.heard.Add(late)
		if !open.closing && now.Sub(open.heard) > t.limits.SessionTimeout {
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
