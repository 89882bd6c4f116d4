package session

import (
	"context"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// Errands are the errands of one tenure (package controlplane/errand).
type Errands interface {
	// Done takes the answer of an agent, which may be late, repeated or unasked for. It does not block, and does not call ErrandAgents.
	Done(agent id.Session, done *api.ErrandDone)
	// Left notes that the stream of an agent ended. It does not block, and does not call ErrandAgents.
	Left(agent id.Session)
	// MarkBucket has an agent write the marker of the agents' bucket again, and waits for the answer.
	MarkBucket(ctx context.Context) error
}

// ErrandAgents are the agents connected to the owner, as far as they take errands.
type ErrandAgents interface {
	// ErrandTakers returns the connected agents with the jobs role, in any order. Agents that drain and those of protocols without
	// errands are not among them.
	ErrandTakers() []id.Session
	// MarkTakers is ErrandTakers for MarkBucket, which agents of any role take.
	MarkTakers() []id.Session
	// GiveErrand sends an errand. It returns false if the agent is not connected. The errand may still be lost with its stream.
	GiveErrand(agent id.Session, e *api.Errand) bool
}

// ErrandTakers implements ErrandAgents.
func (t *tenure) ErrandTakers() []id.Session { return t.takers(metadata.RoleJobs) }

// MarkTakers implements ErrandAgents.
func (t *tenure) MarkTakers() []id.Session { return t.takers(0) }

// takers returns the connected agents with the roles that do not drain and know errands.
func (t *tenure) takers(roles metadata.Roles) (takers []id.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for session, a := range t.mu.agents {
		open := t.mu.sessions[session]
		if open != nil && !open.draining && !a.drains && !a.leaving && open.info.Roles&roles == roles && t.knowsErrands(a) {
			takers = append(takers, session)
		}
	}
	return takers
}

// knowsErrands reports whether the protocol of a stream has errands.
func (t *tenure) knowsErrands(a *agent) bool {
	return min(a.protocol, t.cluster.cfg.Protocol) >= api.ErrandProtocol
}

// GiveErrand implements ErrandAgents.
func (t *tenure) GiveErrand(agent id.Session, e *api.Errand) bool {
	return t.sendTo(agent, &api.OwnerItem{Item: &api.OwnerItem_Errand{Errand: e}})
}

// errandDone passes an agent's answer on.
func (a *agent) errandDone(done *api.ErrandDone) {
	if a.t.errands != nil {
		a.t.errands.Done(a.session, done)
	}
}
