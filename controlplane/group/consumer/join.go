package consumer

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/controlplane/group/step"
)

// classicProtocolType is the protocol type of consumers of the classic protocol.
const classicProtocolType = "consumer"

// requiresKnownMemberSince is the version of JoinGroup from which dynamic members ask for an id first (KIP-394).
const requiresKnownMemberSince = 4

// Join answers the JoinGroup of a classic member in this group, at once. The member takes the same steps as by a heartbeat, and its epoch
// is its generation. The response names no leader. A caller does not call Join on a group without members, which becomes a
// classic one (see Empty). (GroupMetadataManager.classicGroupJoinToConsumerGroup)
func (g *Group) Join(now time.Time, c Client, req *kmsg.JoinGroupRequest, cat Catalogue,
	reply func(*kmsg.JoinGroupResponse),
) step.Step {
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.Version, resp.Protocol = req.Version, new(string)
	if err := g.join(now, c, req, cat, resp); err != nil {
		resp.ErrorCode = err.Code
	}
	return g.answer(func() { reply(resp) })
}

func (g *Group) join(now time.Time, c Client, req *kmsg.JoinGroupRequest, cat Catalogue, resp *kmsg.JoinGroupResponse) *Error {
	name := req.MemberID
	if name == "" {
		name = g.cfg.NewMemberID()
	}
	if err := g.checkJoin(name, req, resp); err != nil {
		return err
	}
	if req.MemberID == "" && req.InstanceID == nil && req.Version >= requiresKnownMemberSince {
		resp.MemberID = name
		return fault(kerr.MemberIDRequired, "The member has to join with the id given.")
	}
	subscription, ok := readSubscription(req.Protocols[0].Metadata)
	if !ok {
		return fault(kerr.InconsistentGroupProtocol, "Malformed subscription.")
	}
	e, err := g.enterClassic(name, req)
	if err != nil {
		return err
	}
	downgrade := req.InstanceID != nil && e.found != nil && g.downgradesWithReplaced(e.found)
	m := e.next
	m.updateClassic(c, req, subscription)
	if err := g.checkBytes(e); err != nil {
		return err
	}
	if e.found == nil {
		g.log("classic member joins consumer group", m)
	}
	generation := g.epoch
	g.settle(now, cat, e, true)
	owned := subscription.owned(cat)
	rebalance := g.assignmentEpoch < g.epoch
	if !downgrade {
		g.retarget(now, cat)
	}
	if !downgrade || !rebalance {
		g.reconcile(now, cat, m, owned, e.resubscribed())
	}
	answerJoin(resp, m)
	if downgrade {
		g.epoch = generation // the rebalance that follows is the new generation (ClassicGroup.fromConsumerGroup)
		g.convertToClassic(now, cat, rebalance, "last member of the consumer protocol was replaced")
		return nil
	}
	m.timers.session, m.timers.join = now.Add(m.classicSession()), time.Time{}
	m.timers.sync = now.Add(m.rebalanceTimeout())
	g.arm(m)
	return nil
}

func answerJoin(resp *kmsg.JoinGroupResponse, m *member) {
	protocolType := classicProtocolType
	resp.MemberID, resp.Generation, resp.ProtocolType = m.id, m.epoch, &protocolType
	resp.Protocol = &m.classic.protocols[0].Name
}

// checkJoin returns the reason that forbids a classic member to join.
func (g *Group) checkJoin(name string, req *kmsg.JoinGroupRequest, resp *kmsg.JoinGroupResponse) *Error {
	session := time.Duration(req.SessionTimeoutMillis) * time.Millisecond
	switch full := g.checkSize(name, req.InstanceID); {
	case session < g.cfg.ClassicMinSession || session > g.cfg.ClassicMaxSession:
		resp.MemberID = req.MemberID
		return fault(kerr.InvalidSessionTimeout, "Session time-out out of range.")
	case classic.IsLarge(req.Protocols):
		return fault(kerr.InvalidRequest, "Too many protocols, or too large ones.")
	case g.cfg.Migration == MigrationDisabled:
		return fault(kerr.InconsistentGroupProtocol, "Classic members cannot join: migration is disabled.")
	case full != nil:
		return full
	case !g.supports(req.ProtocolType, req.Protocols):
		return fault(kerr.InconsistentGroupProtocol, "Member %s's protocols are not supported.", name)
	default:
		return nil
	}
}

// supports reports whether a classic member shares a protocol with all classic members of the group.
func (g *Group) supports(protocolType string, protocols []kmsg.JoinGroupRequestProtocol) bool {
	if protocolType != classicProtocolType {
		return false
	}
	for _, p := range protocols {
		if g.allClassicKnow(p.Name) {
			return true
		}
	}
	return false
}

func (g *Group) allClassicKnow(protocol string) bool {
	for _, m := range g.members {
		if m.classic != nil && !m.classic.knows(protocol) {
			return false
		}
	}
	return true
}

func (c *classicMember) knows(protocol string) bool {
	for _, p := range c.protocols {
		if p.Name == protocol {
			return true
		}
	}
	return false
}

// enterClassic finds or makes the member of a join.
func (g *Group) enterClassic(name string, req *kmsg.JoinGroupRequest) (entry, *Error) {
	if req.InstanceID == nil {
		return g.enterDynamic(name, true)
	}
	return g.enterStatic(name, *req.InstanceID, req.MemberID == "", true)
}

// rebalanceMs is the rebalance time-out of a join. Version 0 has none, and uses the session time-out
// (JoinGroupRequest.maybeOverrideRebalanceTimeout).
func rebalanceMs(req *kmsg.JoinGroupRequest) int32 {
	if req.Version == 0 {
		return req.SessionTimeoutMillis
	}
	return req.RebalanceTimeoutMillis
}

// updateClassic takes over what a join tells.
func (m *member) updateClassic(c Client, req *kmsg.JoinGroupRequest, s subscription) {
	m.clientID, m.clientHost = c.ID, c.Host
	if req.InstanceID != nil {
		m.instance = *req.InstanceID
	}
	if s.Rack != nil {
		m.rack = *s.Rack
	}
	if ms := rebalanceMs(req); ms != -1 {
		m.rebalanceMs = ms
	}
	m.topics, m.regex = nameSet(s.Topics), ""
	m.timers.rebalance = time.Time{}
	m.classic = &classicMember{sessionMs: req.SessionTimeoutMillis}
	for _, p := range req.Protocols {
		m.classic.protocols = append(m.classic.protocols, classic.Protocol{Name: p.Name, Metadata: p.Metadata})
	}
}
