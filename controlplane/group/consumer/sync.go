package consumer

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

// Sync answers the SyncGroup of a classic member with its assignment, at once.
// (GroupMetadataManager.classicGroupSyncToConsumerGroup)
func (g *Group) Sync(now time.Time, req *kmsg.SyncGroupRequest, cat Catalogue, reply func(*kmsg.SyncGroupResponse)) step.Step {
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.Version, resp.MemberAssignment = req.Version, []byte{}
	if m, err := g.checkSync(now, req); err != nil {
		resp.ErrorCode = err.Code
	} else {
		m.timers.sync, m.timers.session = time.Time{}, now.Add(m.classicSession())
		g.arm(m)
		resp.ProtocolType, resp.Protocol = req.ProtocolType, req.Protocol
		resp.MemberAssignment = encodeAssignment(m.assigned.sorted(), m.classic.protocols[0].Metadata, cat)
	}
	return g.answer(func() { reply(resp) })
}

func (g *Group) checkSync(now time.Time, req *kmsg.SyncGroupRequest) (*member, *Error) {
	m, err := g.validateClassic(req.MemberID, req.InstanceID, req.Generation)
	if err != nil {
		return nil, err
	}
	switch first := m.classic.protocols[0].Name; {
	case req.ProtocolType != nil && *req.ProtocolType != classicProtocolType,
		req.Protocol != nil && *req.Protocol != first:
		return nil, fault(kerr.InconsistentGroupProtocol, "Protocol is not the one of the join.")
	case g.assignmentEpoch > m.epoch && m.state != unrevoked:
		// One that is to revoke has rejoined already; it has to finish that first.
		g.awaitJoin(now, m)
		return nil, fault(kerr.RebalanceInProgress, "Member %s should rejoin to catch up.", m.id)
	default:
		return m, nil
	}
}

// validateClassic finds the classic member of a request and checks its generation.
func (g *Group) validateClassic(name string, instance *string, generation int32) (*member, *Error) {
	m, err := g.validate(name, instance)
	switch {
	case err != nil:
		return nil, err
	case m.classic == nil:
		return nil, fault(kerr.UnknownMemberID, "Member %s does not use the classic protocol.", m.id)
	case m.epoch != generation:
		return nil, fault(kerr.IllegalGeneration, "Generation %d is not the member epoch %d of member %s.",
			generation, m.epoch, m.id)
	default:
		return m, nil
	}
}

// awaitJoin starts the time-out in which a classic member must rejoin, unless it already runs.
func (g *Group) awaitJoin(now time.Time, m *member) {
	if m.timers.join.IsZero() {
		m.timers.join = now.Add(m.rebalanceTimeout())
		g.arm(m)
	}
}

// ClassicHeartbeat answers the Heartbeat of a classic member: REBALANCE_IN_PROGRESS if it is to rejoin, because there
// is a newer target, because it has to revoke partitions, or because those it waits for are free.
// (GroupMetadataManager.classicGroupHeartbeatToConsumerGroup)
func (g *Group) ClassicHeartbeat(now time.Time, req *kmsg.HeartbeatRequest, reply func(*kmsg.HeartbeatResponse)) step.Step {
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.Version = req.Version
	if m, err := g.validateClassic(req.MemberID, req.InstanceID, req.Generation); err != nil {
		resp.ErrorCode = err.Code
	} else {
		m.timers.session = now.Add(m.classicSession())
		g.arm(m)
		if m.epoch < g.assignmentEpoch || m.state == unrevoked || m.state == unreleased && !g.waits(m) {
			resp.ErrorCode = kerr.RebalanceInProgress.Code
			g.awaitJoin(now, m)
		}
	}
	return g.answer(func() { reply(resp) })
}

// waits reports whether another member still owns a partition of the member's target.
func (g *Group) waits(m *member) bool {
	for _, p := range m.target {
		if _, has := m.assigned[p]; has {
			continue
		}
		if _, taken := g.owners[p]; taken {
			return true
		}
	}
	return false
}

// batchedLeaveSince is the version of LeaveGroup with many members (KIP-345).
const batchedLeaveSince = 3

// ClassicLeave answers a LeaveGroup of classic members, or of an administrator. A request of an administrator names static members by
// instance alone. (GroupMetadataManager.classicGroupLeaveToConsumerGroup)
func (g *Group) ClassicLeave(now time.Time, req *kmsg.LeaveGroupRequest, cat Catalogue, reply func(*kmsg.LeaveGroupResponse)) step.Step {
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.Version = req.Version
	leaving := req.Members
	if req.Version < batchedLeaveSince {
		leaving = []kmsg.LeaveGroupRequestMember{{MemberID: req.MemberID}}
	}
	var gone []*member
	left := make(map[*member]bool)
	for i := range leaving {
		m, err := g.leaver(&leaving[i])
		answer := kmsg.LeaveGroupResponseMember{MemberID: leaving[i].MemberID, InstanceID: leaving[i].InstanceID}
		if err != nil {
			answer.ErrorCode = err.Code
		} else if !left[m] {
			left[m] = true
			gone = append(gone, m)
			g.log("classic member left consumer group", m)
		}
		resp.Members = append(resp.Members, answer)
	}
	if req.Version < batchedLeaveSince {
		resp.ErrorCode, resp.Members = resp.Members[0].ErrorCode, nil
	}
	g.fence(now, cat, gone)
	return g.answer(func() { reply(resp) })
}

func (g *Group) leaver(who *kmsg.LeaveGroupRequestMember) (*member, *Error) {
	if who.InstanceID != nil && who.MemberID == "" {
		if m, ok := g.members[g.static[*who.InstanceID]]; ok {
			return m, nil
		}
	}
	return g.validate(who.MemberID, who.InstanceID)
}
