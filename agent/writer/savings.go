package writer

import (
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/putbudget"
	"github.com/freshet-io/freshet/metadata/id"
)

// Savings are the PUTs that the zone's writers did not use (package putbudget). A writer spends them on parked windows: all
// requests in flight of a connection wait in the open bundle, and the client has sent nothing more. Such a client sends its
// next request only after an answer, so a longer wait brings no company from it.

const (
	// parkedLooks bounds the windows of a bundle that one look considers. Map order makes it a sample.
	parkedLooks = 256
	// spareLoan is the part of a wish that does not follow from PUTs already made by savings.
	spareLoan = 4
	// wishSeconds is the time that a loan lasts: until the answer to the next report but one.
	wishSeconds = 3
)

// parked reports whether the window of a connection is parked in the bundle.
func (g *gathering) parked() bool {
	looks := 0
	for w, requests := range g.windows {
		if w.Parked(requests) {
			return true
		}
		if looks++; looks == parkedLooks {
			return false
		}
	}
	return false
}

// savingsDue returns the time until savings may seal the bundle. A seal by savings follows the answer of a bundle, by the
// linger: each answer allows one, and brings the next requests of the clients that it answers. While no window is parked,
// the next look is after the linger. Called with mu held.
func (s *session) savingsDue(g *gathering, now time.Time) time.Duration {
	if !s.mu.company {
		return forever
	}
	linger := s.w.cfg.Linger
	switch wait := max(linger-now.Sub(g.since.first()), linger-now.Sub(s.mu.returned)); {
	case wait > 0:
		return wait
	case g.parked():
		return 0
	default:
		return linger
	}
}

// noteShort notes that a parked window waited for a token. A bundle that waits for little more than the linger had a token.
// Called with mu held.
func (s *session) noteShort(g *gathering, now time.Time, why reason) {
	if s.mu.short || why != sealLinger && why != sealInterval {
		return
	}
	s.mu.short = now.Sub(g.since.first()) >= 2*s.w.cfg.Linger && g.parked()
}

// grant sets the total of PUTs that the session may make by savings.
func (s *session) grant(limit uint64) {
	s.mu.Lock()
	s.mu.credit.Grant(limit)
	s.mu.Unlock()
	s.poke()
}

// report returns the session's account, and forgets the wish.
func (s *session) report() putbudget.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill(time.Now())
	spent := s.mu.credit.Spent()
	r := putbudget.Report{Rate: s.w.cfg.PutRate, Unused: s.mu.budget.Unused(), Spent: spent}
	if since := spent - s.mu.spent; s.mu.short || since > 0 {
		r.Wanted = wishSeconds*since + spareLoan
	}
	s.mu.spent, s.mu.short = spent, false
	return r
}

// OnZoneWriter takes the limit of PUTs by savings. An agent that hands over has none. Part of client.ZoneWriterHandler.
func (w *Writer) OnZoneWriter(m *api.ZoneWriter) {
	s := w.currentSession()
	switch {
	case s == nil:
	case id.Session(m.GetSession()) == s.id:
		s.grant(m.GetSavingsLimit())
	default:
		s.grant(0)
	}
}

// Savings returns the account of the PUT budget in this session, for the agent's next report to the owner. The zero value
// is that of no session.
func (w *Writer) Savings() putbudget.Report {
	if s := w.currentSession(); s != nil {
		return s.report()
	}
	return putbudget.Report{}
}

func (w *Writer) currentSession() *session {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mu.session
}
