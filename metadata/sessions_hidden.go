package metadata

import (
	"iter"

	"github.com/freshet-io/freshet/metadata/id"
)

// zoneRetentionMs is how long a zone without agents is remembered: as long as node ids are not used again.
const zoneRetentionMs = 24 * 60 * 60 * 1000

// hideSession hides or shows a session. It does not hide the last shown session: Metadata must name at least one agent.
func (s *machine) hideSession(c *HideSession, fx *Effects) error {
	e, ok := s.sessions.Get(c.Session)
	switch {
	case !ok && s.noSession(c.Session) != nil:
		return ErrUnknownSession
	case !ok || e.closed:
		return ErrSessionClosed
	case e.hidden == c.Hidden, c.Hidden && s.lastShown(c.Session):
		return nil
	}
	before := e.shown()
	e = s.mutableSession(c.Session, e)
	e.hidden = c.Hidden
	if e.shown() != before {
		s.membershipChanged(fx)
	}
	return nil
}

// lastShown tells whether no other session is shown.
func (s *machine) lastShown(n id.Session) bool {
	last := true
	s.sessions.Scan(func(other id.Session, e *session) bool {
		last = other == n || !e.shown()
		return last
	})
	return last
}

// EmptiedZones gives, of each zone without an agent that is shown, the newest session that served clients, in the order
// of the sessions. A zone is remembered for 24 hours after its last session was closed.
func (s *machine) EmptiedZones() iter.Seq[SessionInfo] {
	return func(yield func(SessionInfo) bool) {
		newest := s.newestByZone()
		s.sessions.Scan(func(n id.Session, e *session) bool {
			return newest[e.zone] != n || e.shown() || yield(e.info(n))
		})
	}
}

// newestByZone gives the session that stands for each zone that has a name: the newest that is shown, else the newest that served clients.
func (s *machine) newestByZone() map[string]id.Session {
	newest, shown := make(map[string]id.Session), make(map[string]bool)
	s.sessions.Scan(func(n id.Session, e *session) bool {
		if e.zone != "" && e.roles.ServesClients() && (e.shown() || !shown[e.zone]) {
			newest[e.zone], shown[e.zone] = n, e.shown()
		}
		return true
	})
	return newest
}

// retainsZone tells whether a closed session, which would be forgotten, is kept because its zone is remembered by it.
func (s *machine) retainsZone(n id.Session, e *session, newest map[string]id.Session) bool {
	return newest[e.zone] == n && s.now-e.closedAt < zoneRetentionMs
}
