package classic

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

// Leave is LeaveGroup v0-5: members go, several at once from version 3 on (KIP-345). An administrator may remove a static
// member by its instance id alone.
func (g *Group) Leave(now time.Time, _ Client, req *kmsg.LeaveGroupRequest, reply func(*kmsg.LeaveGroupResponse)) step.Step {
	g.begin(now)
	resp := kmsg.NewPtrLeaveGroupResponse()
	resp.Version = req.Version
	switch {
	case g.id == "":
		resp.ErrorCode = codeInvalidGroup
	case g.state == Dead:
		resp.ErrorCode = codeCoordinatorGone
	default:
		g.leaveAll(leavers(req), resp)
	}
	g.out.Answer(func() { reply(resp) })
	return g.take()
}

// leavers are the members of a request; versions before 3 have one in another field.
func leavers(req *kmsg.LeaveGroupRequest) []kmsg.LeaveGroupRequestMember {
	if req.Version >= batchedLeaveSince {
		return req.Members
	}
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = req.MemberID
	return []kmsg.LeaveGroupRequestMember{m}
}

func (g *Group) leaveAll(members []kmsg.LeaveGroupRequestMember, resp *kmsg.LeaveGroupResponse) {
	resp.Members = make([]kmsg.LeaveGroupResponseMember, 0, len(members))
	var left []string
	for _, m := range members {
		answer := kmsg.NewLeaveGroupResponseMember()
		answer.MemberID, answer.InstanceID, answer.ErrorCode = m.MemberID, m.InstanceID, g.leave(m)
		resp.Members = append(resp.Members, answer)
		if answer.ErrorCode == 0 {
			left = append(left, m.MemberID)
		}
	}
	if resp.Version < batchedLeaveSince {
		resp.ErrorCode = resp.Members[0].ErrorCode
	}
	if len(left) == 0 {
		return
	}
	switch g.state {
	case Stable, CompletingRebalance:
		g.prepareRebalance("members left", "", zap.Strings("members", left))
	case PreparingRebalance:
		g.completeIfJoined()
	default:
	}
}

// leave takes one member out; the group is seen to afterwards.
func (g *Group) leave(m kmsg.LeaveGroupRequestMember) int16 {
	id := m.MemberID
	if id == "" {
		if m.InstanceID == nil {
			return codeUnknownMember
		}
		existing, ok := g.roster.instances[*m.InstanceID]
		if !ok {
			return codeUnknownMember
		}
		id = existing
	} else if _, ok := g.pending[id]; !ok {
		if code := g.validate(id, m.InstanceID); code != 0 {
			return code
		}
	}
	reason := "not provided"
	if m.Reason != nil {
		reason = *m.Reason
	}
	g.log("member leaves", reason, zap.String("member", id), zap.Stringp("instance", m.InstanceID))
	g.remove(id)
	return 0
}
