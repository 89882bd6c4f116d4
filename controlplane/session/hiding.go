package session

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// hideAfter is the time that an agent whose stream broke has to come back before Metadata omits it. The stream of a process breaks
	// when it is killed, and clients would be sent there until its session expires. A live process is back in a tenth of that.
	hideAfter = time.Second
	// showAfter is how long an agent that was hidden twice within hiddenAgain must be connected without a break before Metadata
	// shows it again. Each change moves partitions, and the clients that use them.
	showAfter   = 5 * time.Second
	hiddenAgain = 10 * time.Minute
)

// unseen returns the sessions to hide or to show again. While no agent that serves clients is connected, the time of lost streams does
// not run: either the owner's network broke, or clients have no other agent.
//
// An agent that has not come to this owner within the session time-out is hidden too, if another one has. Its session stays longer, since an idle
// agent may not know yet that the owner changed.
//
// A hidden agent that comes back is shown at once, since networks heal. An agent that was hidden again is shown after showAfter, or at
// once if its zone has no other: its clients would use another zone meanwhile.
func (t *tenure) unseen(now time.Time, late time.Duration) (changes []*metadata.HideSession) {
	t.mu.Lock()
	defer t.mu.Unlock()
	others, zones := false, map[string]bool{}
	for session, open := range t.mu.sessions {
		here := open.mayBeShown() && t.mu.agents[session] != nil
		others = others || here
		zones[open.zone] = zones[open.zone] || here && !open.hidden
	}
	replaced := t.replaced()
	for session, open := range t.mu.sessions {
		connected := t.mu.agents[session] != nil
		if !open.came.IsZero() {
			open.came = open.came.Add(late)
		}
		switch {
		case open.lost.IsZero():
		case others:
			open.lost = open.lost.Add(late)
		default:
			open.lost = now
		}
		away := !open.lost.IsZero() && now.Sub(open.lost) >= hideAfter
		unheard := open.came.IsZero() && open.lost.IsZero() && others && now.Sub(open.heard) >= t.limits.SessionTimeout
		gone := !connected && (replaced[session] || away || unheard)
		hide, show := gone && !open.hidden, connected && open.hidden
		switch {
		case !open.mayBeShown(), open.hiding, !hide && !show:
		case show && open.again && zones[open.zone] && now.Sub(open.came) < showAfter:
		default:
			open.hiding = true
			changes = append(changes, &metadata.HideSession{Session: session, Hidden: hide})
		}
	}
	return changes
}

// replaced returns the sessions without a stream whose addresses a newer connected session has: two processes cannot listen at one
// address. Called with mu held.
func (t *tenure) replaced() map[id.Session]bool {
	if len(t.mu.agents) == len(t.mu.sessions) {
		return nil
	}
	newest := make(map[metadata.Endpoint]id.Session, len(t.mu.agents)) // by first endpoint
	for session := range t.mu.agents {
		if open := t.mu.sessions[session]; open != nil && open.mayBeShown() && len(open.info.Endpoints) > 0 {
			first := open.info.Endpoints[0]
			newest[first] = max(newest[first], session)
		}
	}
	replaced := map[id.Session]bool{}
	for session, open := range t.mu.sessions {
		if t.mu.agents[session] != nil || len(open.info.Endpoints) == 0 {
			continue
		}
		if by := newest[open.info.Endpoints[0]]; by > session && slices.Equal(t.mu.sessions[by].info.Endpoints, open.info.Endpoints) {
			replaced[session] = true
		}
	}
	return replaced
}

// mayBeShown reports whether clients are sent to the session unless it is hidden.
func (o *openSession) mayBeShown() bool { return o.serves && !o.draining && !o.closing }

// hide brings a change into the log. The next look repeats a failed change.
func (t *tenure) hide(c *metadata.HideSession) {
	change := "agent is shown to clients again"
	if c.Hidden {
		change = "agent is hidden from clients: it has no stream with the owner"
	}
	t.log.Info(change, zap.Uint32("session", uint32(c.Session)))
	if _, err := t.propose(t.ctx, c); err == nil && c.Hidden {
		t.metrics.hidden.Inc()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if open := t.mu.sessions[c.Session]; open != nil {
		open.hiding = false
	}
}

// hiddenSessions returns the sessions that clients are not shown.
func hiddenSessions(s *metadata.State) map[id.Session]bool {
	hidden := make(map[id.Session]bool)
	for info := range s.Sessions() {
		if info.Hidden {
			hidden[info.ID] = true
		}
	}
	return hidden
}

// noteHidden takes what the state says. Called with mu held.
func (t *tenure) noteHidden(hidden map[id.Session]bool) {
	for session, open := range t.mu.sessions {
		if hidden[session] && !open.hidden {
			open.again, open.hiddenAt = time.Since(open.hiddenAt) < hiddenAgain, time.Now()
		}
		open.hidden = hidden[session]
	}
}
