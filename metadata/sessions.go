package metadata

import (
	"iter"
	"slices"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// session is an agent session, open or lately closed.
type session struct {
	gen       uint64
	instance  string
	zone      string
	software  string
	peer      string
	roles     Roles
	endpoints []Endpoint // never changed in place
	nodeIDs   []int32    // likewise
	nextN     uint32     // the lowest n that is not settled
	draining  bool
	hidden    bool
	closed    bool
	openedAt  int64 // command time
	closedAt  int64 // command time
	results   btree.Map[uint32, *commit.Result]
}

// SessionInfo describes an agent session.
type SessionInfo struct {
	ID        id.Session
	Instance  string
	Zone      string
	Endpoints []Endpoint // not to be changed
	NodeIDs   []int32    // one per endpoint; not to be changed
	NextN     uint32     // the lowest n that is not settled
	Draining  bool       // left the membership, still commits
	Hidden    bool       // lost sight of: not shown, still commits
	Closed    bool       // closed within the last ten minutes, or a day where no other agent of the zone came after it
	Version   string     // of the agent's software
	Peer      string     // host:port at which agents of its zone ask it for bytes, "" if nowhere
	Roles     Roles
}

// Shown tells whether the session is in the membership: clients are sent to it.
func (i *SessionInfo) Shown() bool { return i.Serves() && !i.Hidden }

// Serves tells whether the session's agent may take what clients send, though they may not be sent there.
func (i *SessionInfo) Serves() bool { return !i.Closed && !i.Draining && i.Roles.ServesClients() }

func (e *session) info(n id.Session) SessionInfo {
	return SessionInfo{
		ID: n, Instance: e.instance, Zone: e.zone, Endpoints: e.endpoints, NodeIDs: e.nodeIDs, NextN: e.nextN,
		Draining: e.draining, Hidden: e.hidden, Closed: e.closed, Version: e.software,
		Peer: e.peer, Roles: e.roles,
	}
}

// shown tells whether Metadata shows the session's endpoints.
func (e *session) shown() bool {
	return !e.draining && !e.hidden && !e.closed && e.roles.ServesClients()
}

func (s *machine) mutableSession(n id.Session, e *session) *session {
	if e.gen == s.gen {
		return e
	}
	m := *e
	m.gen = s.gen
	m.results = *e.results.Copy()
	s.sessions.Set(n, &m)
	return &m
}

// membershipChanged counts a change of what Metadata shows.
func (s *machine) membershipChanged(fx *Effects) {
	s.membership++
	fx.Members = true
}

func (s *machine) openSession(c *OpenSession, fx *Effects) Result {
	if n, ok := s.instances.Get(c.Instance); ok {
		if e, _ := s.sessions.Get(n); !e.closed {
			return Result{Value: OpenSessionResult{Session: n, NodeIDs: e.nodeIDs}}
		}
	}
	n := s.nextSession
	s.nextSession++
	e := &session{
		gen: s.gen, instance: c.Instance, zone: c.Zone, software: c.Version,
		peer: c.Peer, roles: c.Roles, endpoints: slices.Clone(c.Endpoints), nextN: 1, openedAt: s.now,
	}
	for range c.Endpoints {
		e.nodeIDs = append(e.nodeIDs, s.nextNode)
		s.nextNode++
	}
	s.sessions.Set(n, e)
	s.load.Other += e.weight()
	s.instances.Set(c.Instance, n)
	fx.Opened = append(fx.Opened, n)
	if e.shown() {
		s.membershipChanged(fx)
	}
	return Result{Value: OpenSessionResult{Session: n, NodeIDs: e.nodeIDs}}
}

// noSession is the error for a session that is not in the table; nil if it was opened once.
func (s *machine) noSession(n id.Session) error {
	if n == 0 || n >= s.nextSession {
		return ErrUnknownSession
	}
	return nil
}

func (s *machine) drainSession(c *DrainSession, fx *Effects) error {
	e, ok := s.sessions.Get(c.Session)
	switch {
	case !ok && s.noSession(c.Session) != nil:
		return ErrUnknownSession
	case !ok || e.closed:
		return ErrSessionClosed
	case e.draining:
		return nil
	}
	s.leaves(e, fx)
	s.mutableSession(c.Session, e).draining = true
	return nil
}

// leaves counts that a session leaves the membership. One that is hidden has left it before; who follows the sessions is to
// know all the same.
func (s *machine) leaves(e *session, fx *Effects) {
	if e.shown() {
		s.membershipChanged(fx)
	}
	fx.Members = fx.Members || e.hidden
}

// closeSession closes a session for ever (I9). Closing it again changes nothing.
func (s *machine) closeSession(c *CloseSession, fx *Effects) error {
	e, ok := s.sessions.Get(c.Session)
	if !ok {
		return s.noSession(c.Session)
	}
	if e.closed {
		return nil
	}
	s.leaves(e, fx)
	e = s.mutableSession(c.Session, e)
	e.closed, e.closedAt = true, s.now
	s.ended.Set(c.Session, endedWriter{opened: e.openedAt, ended: s.now, nextN: e.nextN})
	s.abortJobsOf(c.Session)
	fx.Closed = append(fx.Closed, c.Session)
	return nil
}

// Session gives an agent session that is open or was closed in the last ten minutes.
func (s *machine) Session(n id.Session) (SessionInfo, bool) {
	e, ok := s.sessions.Get(n)
	if !ok {
		return SessionInfo{}, false
	}
	return e.info(n), true
}

// SessionByInstance gives the newest session of an agent instance, under the same terms as Session.
func (s *machine) SessionByInstance(instance string) (SessionInfo, bool) {
	n, ok := s.instances.Get(instance)
	if !ok {
		return SessionInfo{}, false
	}
	return s.Session(n)
}

// Sessions gives the sessions that are open or were closed in the last ten minutes, in the order they were opened.
func (s *machine) Sessions() iter.Seq[SessionInfo] {
	return func(yield func(SessionInfo) bool) {
		s.sessions.Scan(func(n id.Session, e *session) bool { return yield(e.info(n)) })
	}
}

// MembershipVersion rises whenever the membership that Metadata shows changes (sessions neither closed nor draining),
// and with CreatePartitions, which moves partitions. It never falls. Clients see it as the leader epoch of every partition.
func (s *machine) MembershipVersion() uint64 { return s.membership }
