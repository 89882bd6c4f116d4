package session

import (
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// hideAfter is how long an agent whose stream broke may take to come back before Metadata shows it no more. A process
	// that is killed takes its stream with it, and clients would go on to be sent there until its session expires. One
	// that lives is back in a tenth of that.
	hideAfter = time.Second
	// showAfter is how long an agent that was hidden twice within hiddenAgain must be connected without a break before Metadata
	// shows it again. Each change moves partitions, and the clients that use them.
	showAfter   = 5 * time.Second
	hiddenAgain = 10 * time.Minute
	// lookEvery is how often the streams are looked at.
	lookEvery = hideAfter / 4
)

// watchStreams hides agents whose stream with this owner broke, and shows those again that have come back. Their sessions
// stay as they are (I9). An agent that this owner has not had a stream with yet may be on its way to it.
func (t *tenure) watchStreams() {
	t.every(lookEvery, func(now time.Time, late time.Duration) {
		for _, c := range t.unseen(now, late) {
			t.spawn(func() { t.hide(c) })
		}
	})
}

// unseen gives the sessions to hide or to show again. While no agent that clients are sent to is connected, nobody's time
// runs: what broke then is rather the owner's network, or there is nobody to send clients to instead.
//
// A hidden agent that comes back is shown at once, since networks heal. One that was hidden again is shown after showAfter, or at
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
	for session, open := range t.mu.sessions {
		connected := t.mu.agents[session] != nil
		open.came = open.came.Add(late)
		switch {
		case open.lost.IsZero():
		case others:
			open.lost = open.lost.Add(late)
		default:
			open.lost = now
		}
		gone := !connected && !open.lost.IsZero() && now.Sub(open.lost) >= hideAfter
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

// mayBeShown tells whether a session is one that clients are sent to unless it is hidden.
func (o *openSession) mayBeShown() bool { return o.serves && !o.draining && !o.closing }

// hide brings a change into the log. What fails is tried again by the next look.
func (t *tenure) hide(c *metadata.HideSession) {
	change := "agent is shown to clients again"
	if c.Hidden {
		change = "agent is hidden from clients: it has no connection"
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

// hiddenSessions gives the sessions that clients are not shown.
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
