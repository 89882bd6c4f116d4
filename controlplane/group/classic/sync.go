package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

// Sync is SyncGroup v0-5: the leader of a generation sends the assignment, and every member gets its part of it. Members that ask before the
// leader wait for it.
func (g *Group) Sync(now time.Time, _ Client, req *kmsg.SyncGroupRequest, reply func(*kmsg.SyncGroupResponse)) step.Step {
	g.begin(now)
	if code := g.validateSync(req); code != 0 {
		g.replySync(req.Version, syncError(code), reply)
		return g.take()
	}
	m := g.roster.byID[req.MemberID]
	g.synced(m.ID)
	if g.state == Stable {
		g.replySync(req.Version, g.assignmentAnswer(m), reply)
		return g.take()
	}
	if g.leader == m.ID {
		if code := g.fits(req.GroupAssignment); code != 0 {
			g.replySync(req.Version, syncError(code), reply)
			return g.take()
		}
	}
	g.parkSync(m, req.Version, reply)
	if g.leader == m.ID {
		g.assign(req.GroupAssignment)
	}
	return g.take()
}

// validateSync is what KafkaApis, GroupCoordinatorService and validateSyncGroup check, in their order.
func (g *Group) validateSync(req *kmsg.SyncGroupRequest) int16 {
	switch {
	case req.Version >= mandatoryProtocolSince && (req.ProtocolType == nil || req.Protocol == nil):
		return codeInconsistentProtocol
	case g.id == "":
		return codeInvalidGroup
	case g.state == Dead:
		return codeCoordinatorGone
	}
	if code := g.validate(req.MemberID, req.InstanceID); code != 0 {
		return code
	}
	switch {
	case req.Generation != g.generation:
		return codeIllegalGeneration
	case differs(req.ProtocolType, g.protocolType) || differs(req.Protocol, g.protocol):
		return codeInconsistentProtocol
	case g.state == PreparingRebalance:
		return codeRebalanceInProgress
	}
	return 0
}

// differs tells whether a client names another than the group's; either may have none.
func differs(requested *string, own string) bool {
	return requested != nil && own != "" && *requested != own
}

// synced notes that a member of the generation asked for its assignment.
func (g *Group) synced(id string) {
	delete(g.syncing, id)
	if len(g.syncing) == 0 {
		g.timers.sync = zeroTime
	}
}

// fits returns the error of an assignment beyond a bound, 0 for none. Kafka answers UNKNOWN_SERVER_ERROR to the leader of a group whose record
// it cannot write (GroupMetadataManager.classicGroupSyncToClassicGroup). At the bound of all groups, clients are to try again. The assignments
// replace those of the generation before. Each one counts in MaxBytes, even if the request has two for a member.
func (g *Group) fits(assignments []kmsg.SyncGroupRequestGroupAssignment) (code int16) {
	bytes, charged := g.roster.bytes, 0
	for _, m := range g.roster.list {
		bytes -= len(m.Assignment)
	}
	given := make(map[string]int, len(assignments))
	for _, a := range assignments {
		given[a.MemberID] = len(a.MemberAssignment)
		bytes += len(a.MemberAssignment)
		if len(a.MemberAssignment) > MaxMemberBytes || bytes > MaxBytes {
			return codeUnknownServer
		}
	}
	for _, m := range g.roster.list {
		charged += Charge(m.bytes-len(m.Assignment)+given[m.ID]) - Charge(m.bytes)
	}
	if !g.cfg.Budget.HasRoom(charged) {
		return codeCoordinatorGone
	}
	return 0
}

// assign takes the leader's assignment. Members that it leaves out get none.
func (g *Group) assign(assignments []kmsg.SyncGroupRequestGroupAssignment) {
	given := make(map[string][]byte, len(assignments))
	for _, a := range assignments {
		given[a.MemberID] = a.MemberAssignment
	}
	for _, m := range g.roster.list {
		m.Assignment = given[m.ID]
		g.roster.weigh(m)
	}
	g.transition(Stable)
	g.log("group is stable", "", zap.Int("members", g.roster.len()), zap.String("leader", g.leader))
	g.write()
	for _, m := range g.roster.list {
		if g.answerSync(m, g.assignmentAnswer(m)) {
			g.renew(m) // it may have ended while the member waited
		}
	}
}

func (g *Group) assignmentAnswer(m *member) *kmsg.SyncGroupResponse {
	resp := syncError(0)
	protocolType, protocol := g.protocolType, g.protocol
	resp.ProtocolType, resp.Protocol = &protocolType, &protocol
	if m.Assignment != nil {
		resp.MemberAssignment = m.Assignment
	}
	return resp
}
