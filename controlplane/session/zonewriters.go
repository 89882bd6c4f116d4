package session

import (
	"context"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// ZoneWriters plans which agents of a zone write and which hand over to them, for one tenure (package
// controlplane/zonewriter). Its methods, but for wait, must not block, and must not call ZoneAgents.
type ZoneWriters interface {
	// Members takes the agents as the state has them: at the beginning, and when the membership has changed.
	Members(s *metadata.State)
	// Connected notes that an agent has a new stream, on which it was told nothing yet.
	Connected(agent id.Session)
	// Heard notes that an agent's report is in the table of loads.
	Heard(agent id.Session, report *api.Load)
	// Start plans and tells agents until ctx ends. wait returns after the end.
	Start(ctx context.Context) (wait func())
}

// ZoneAgents are the agents connected to the owner as those who are told their writers.
type ZoneAgents interface {
	// TellZoneWriter sends an agent its writer, its part of the zone's PUT budget, and the limit of its PUTs by savings. It
	// reports whether the agent is connected. The message may still be lost with its stream.
	TellZoneWriter(agent, writer id.Session, share float64, savings uint64) bool
}

// TellZoneWriter implements ZoneAgents.
func (t *tenure) TellZoneWriter(agent, writer id.Session, share float64, savings uint64) bool {
	return t.sendTo(agent, &api.OwnerItem{Item: &api.OwnerItem_ZoneWriter{
		ZoneWriter: &api.ZoneWriter{Session: uint32(writer), PutShare: share, SavingsLimit: savings},
	}})
}
