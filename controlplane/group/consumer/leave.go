package consumer

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

// leave serves a heartbeat by which a member goes: for good (-1), or a static one for a while (-2), in which case it
// keeps place and partitions until its session ends. (GroupMetadataManager.consumerGroupLeave)
func (g *Group) leave(now time.Time, req *kmsg.ConsumerGroupHeartbeatRequest, cat Catalogue,
	resp *kmsg.ConsumerGroupHeartbeatResponse,
) *Error {
	m, err := g.validate(req.MemberID, req.InstanceID)
	if err != nil {
		return err
	}
	if req.InstanceID != nil && req.MemberEpoch == epochLeaveStatic {
		g.leaveForAWhile(m)
	} else {
		g.log("member left consumer group", m)
		g.fence(now, cat, []*member{m})
	}
	resp.MemberID, resp.MemberEpoch = &m.id, req.MemberEpoch
	return nil
}

// leaveForAWhile keeps a static member's place. Its partitions count as assigned from epoch 0, so that the member that
// comes back may commit for them at whatever epoch.
func (g *Group) leaveForAWhile(m *member) {
	g.log("static member left consumer group for a while", m)
	g.disclaim(m)
	assigned := make(epochs, len(m.assigned))
	for p := range m.assigned {
		assigned[p] = 0
	}
	m.epoch, m.assigned, m.revoking = epochLeaveStatic, assigned, nil
	g.claim(m)
	g.mark(m.id)
}

// validate finds the member that a request names, by its instance if it is static.
func (g *Group) validate(name string, instance *string) (*member, *Error) {
	if instance == nil {
		m, ok := g.members[name]
		if !ok {
			return nil, unknownMember(g.id, name)
		}
		return m, nil
	}
	m, ok := g.members[g.static[*instance]]
	switch {
	case !ok:
		return nil, fault(kerr.UnknownMemberID, "Instance id %s is unknown.", *instance)
	case m.id != name:
		return nil, fault(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.",
			name, *instance, m.id)
	default:
		return m, nil
	}
}

// fence removes members. If only classic members are left, the group becomes a classic one. Without members, the empty target
// counts as made, at no time: the next member gets a target at once.
// (GroupMetadataManager.consumerGroupFenceMembers)
func (g *Group) fence(now time.Time, cat Catalogue, gone []*member) {
	if len(gone) == 0 {
		return
	}
	if g.downgradesWithout(gone) {
		for _, m := range gone {
			g.drop(m)
		}
		g.convertToClassic(now, cat, true, "last member of the consumer protocol left")
		return
	}
	for _, m := range gone {
		g.drop(m)
		g.mark(m.id)
	}
	g.digest = unknown // the next heartbeat makes it
	g.bump()
	if len(g.members) == 0 {
		g.assignmentEpoch, g.assignedMs = g.epoch, 0
	}
}

// Deadline tells when Expire wants to be called next; zero: not before something else is called. It may be earlier
// than anything is due.
func (g *Group) Deadline() time.Time { return g.wake }

func (g *Group) arm(m *member) { g.wake = earlier(g.wake, m.timers.earliest(m.epoch)) }

// Expire removes the members whose session ended, or that took too long to revoke, to rejoin or to sync.
func (g *Group) Expire(now time.Time, cat Catalogue) step.Step {
	g.wake = time.Time{}
	var gone []*member
	for _, m := range g.members {
		if why := m.timers.due(now, m.epoch); why != "" {
			g.log("member fenced from consumer group", m, zap.String("reason", why))
			gone = append(gone, m)
		} else {
			g.arm(m)
		}
	}
	g.fence(now, cat, gone)
	return g.flush()
}
