package session

import (
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// Loads gives what the agents say of their load to this replica as the owner; nil while it is not.
func (c *Cluster) Loads() *load.Table {
	if t := c.tenure.Load(); t != nil {
		return &t.loads
	}
	return nil
}

// load takes a report of the agent's load. One that drains, or has another stream by now, has none that counts.
func (a *agent) load(l *api.Load) {
	t := a.t
	t.mu.Lock()
	defer t.mu.Unlock()
	open := t.mu.sessions[a.session]
	if open == nil || open.draining || t.mu.agents[a.session] != a {
		return
	}
	if !t.loads.Heard(a.session, l, time.Now()) {
		t.metrics.refusedLoads.Inc()
		return
	}
	if t.writers != nil {
		t.writers.Heard(a.session, l)
	}
}

// drainingSessions gives the open sessions that have left the membership.
func drainingSessions(s *metadata.State) (all []id.Session) {
	for info := range s.Sessions() {
		if info.Draining && !info.Closed {
			all = append(all, info.ID)
		}
	}
	return all
}

// drained notes that a session has left the membership: what its agent has to do is nobody's measure any more. Called
// with mu held.
func (t *tenure) drained(session id.Session) {
	if open := t.mu.sessions[session]; open != nil && !open.draining {
		open.draining = true
		t.loads.Forget(session)
	}
}
