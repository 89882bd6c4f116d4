package classic

import (
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/step"
)

// joinRequest is a JoinGroup on its way through the group.
type joinRequest struct {
	*kmsg.JoinGroupRequest
	client           Client
	reply            func(*kmsg.JoinGroupResponse)
	rebalanceTimeout time.Duration
}

func newJoinRequest(c Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) *joinRequest {
	ms := req.RebalanceTimeoutMillis
	if req.Version == 0 { // it has no such field
		ms = req.SessionTimeoutMillis
	}
	return &joinRequest{JoinGroupRequest: req, client: c, reply: reply, rebalanceTimeout: time.Duration(max(ms, 0)) * time.Millisecond}
}

func (r *joinRequest) sessionTimeout() time.Duration {
	return time.Duration(r.SessionTimeoutMillis) * time.Millisecond
}

func (r *joinRequest) reason() string {
	if r.Reason == nil {
		return "not provided"
	}
	return *r.Reason
}

// Join is JoinGroup v0-9: a member enters the group, or comes to the next generation. The answer may be parked until the
// generation is complete.
func (g *Group) Join(now time.Time, c Client, req *kmsg.JoinGroupRequest, reply func(*kmsg.JoinGroupResponse)) step.Step {
	g.begin(now)
	r := newJoinRequest(c, req, reply)
	switch {
	case g.id == "":
		g.refuseJoin(r, joinError(r.MemberID, codeInvalidGroup))
	case r.sessionTimeout() < g.cfg.MinSession || r.sessionTimeout() > g.cfg.MaxSession:
		g.refuseJoin(r, joinError(r.MemberID, codeInvalidSession))
	case IsLarge(r.Protocols):
		g.refuseJoin(r, joinError(r.MemberID, codeInvalidRequest))
	case !g.stored && r.MemberID != "":
		g.refuseJoin(r, joinError(r.MemberID, codeUnknownMember))
	case g.growth(r) > MaxBytes, g.atLimit(r):
		g.refuseJoin(r, joinError(r.MemberID, codeGroupFull))
	case !g.cfg.Budget.HasRoom(g.charge(r)):
		g.refuseJoin(r, joinError(r.MemberID, codeCoordinatorLoading))
	default:
		g.join(r)
	}
	return g.take()
}

func (g *Group) refuseJoin(r *joinRequest, resp *kmsg.JoinGroupResponse) {
	g.replyJoin(r.Version, resp, r.reply)
}

// join is classicGroupJoinToClassicGroup. A group that did not exist is written, whatever became of the join.
func (g *Group) join(r *joinRequest) {
	switch {
	case !g.accepts(r.MemberID):
		g.remove(r.MemberID)
		g.refuseJoin(r, joinError("", codeGroupFull))
	case g.state == Dead:
		g.refuseJoin(r, joinError(r.MemberID, codeCoordinatorGone))
	case !g.supports(r.ProtocolType, r.Protocols):
		g.refuseJoin(r, joinError(r.MemberID, codeInconsistentProtocol))
	case r.MemberID == "":
		g.joinNew(r)
	default:
		g.joinKnown(r)
	}
	if !g.stored {
		g.create()
	}
}

// weights returns the bytes of a join's member before and after the join.
func (g *Group) weights(r *joinRequest) (before, after int) {
	if m := g.roster.byID[r.MemberID]; m != nil {
		return m.bytes, m.bytes - protocolBytes(m.Protocols) + requestedBytes(r.Protocols)
	}
	joined := Member{ID: r.client.ID, ClientID: r.client.ID, ClientHost: r.client.Host, Instance: r.InstanceID}
	return 0, joined.Weight() + requestedBytes(r.Protocols)
}

// growth returns the bytes of the group after a join.
func (g *Group) growth(r *joinRequest) int {
	before, after := g.weights(r)
	return g.roster.bytes + after - before
}

// charge returns the bytes that a join adds to the budget.
func (g *Group) charge(r *joinRequest) int {
	before, after := g.weights(r)
	return Charge(after) - Charge(before)
}

// newMemberID returns an id that begins with the first bytes of a prefix. Client IDs have up to 32 KiB, and ids are kept before a member joins.
func (g *Group) newMemberID(prefix string) string {
	if len(prefix) > maxMemberPrefix {
		prefix = strings.ToValidUTF8(prefix[:maxMemberPrefix], "")
	}
	return g.cfg.NewMemberID(prefix)
}

// atLimit reports whether the group has MemberLimit members and the request is of another one. Members of a group above its limit rejoin.
func (g *Group) atLimit(r *joinRequest) bool {
	if g.cfg.MemberLimit == nil {
		return false
	}
	limit := g.cfg.MemberLimit()
	if limit <= 0 || int64(g.roster.len()) < limit {
		return false
	}
	return !g.Has(r.MemberID, r.InstanceID)
}

// Has reports whether the group has a member with this ID or instance ID.
func (g *Group) Has(member string, instance *string) bool {
	_, ok := g.roster.byID[member]
	if instance != nil && !ok {
		_, ok = g.roster.instances[*instance]
	}
	return ok
}

// accepts is acceptJoiningMember: group.max.size. While a rebalance is prepared, only waiting members count, so that
// a group over its size loses the members that rejoin last.
func (g *Group) accepts(id string) bool {
	if g.cfg.MaxSize == 0 {
		return true
	}
	m, known := g.roster.byID[id]
	switch g.state {
	case PreparingRebalance:
		return known && m.join != nil || g.roster.joining < g.cfg.MaxSize
	case CompletingRebalance, Stable:
		return known || g.roster.len() < g.cfg.MaxSize
	default:
		return true
	}
}

func (g *Group) joinNew(r *joinRequest) {
	if r.InstanceID != nil {
		id := g.newMemberID(*r.InstanceID)
		if old, ok := g.roster.instances[*r.InstanceID]; ok {
			g.replaceStatic(r, g.roster.byID[old], id)
			return
		}
		g.addMember(r, id)
		return
	}
	if r.Version < requiresKnownMemberSince {
		g.addMember(r, g.newMemberID(r.client.ID))
		return
	}
	if len(g.pending) >= g.cfg.MaxPending {
		// They lapse with their sessions. GROUP_MAX_SIZE_REACHED would end the clients that it is told.
		g.refuseJoin(r, joinError("", codeCoordinatorLoading))
		return
	}
	id := g.newMemberID(r.client.ID)
	g.pending[id] = g.now.Add(r.sessionTimeout())
	g.arm(g.pending[id])
	g.refuseJoin(r, joinError(id, codeMemberIDRequired))
}

// joinKnown is classicGroupJoinExistingMember.
func (g *Group) joinKnown(r *joinRequest) {
	if _, ok := g.pending[r.MemberID]; ok {
		if r.InstanceID != nil { // ids of static members are never given out before they join
			g.refuseJoin(r, joinError("", codeUnknownServer))
			return
		}
		g.addMember(r, r.MemberID)
		return
	}
	if code := g.validate(r.MemberID, r.InstanceID); code != 0 {
		g.refuseJoin(r, fencedJoin(r.MemberID, code))
		return
	}
	m := g.roster.byID[r.MemberID]
	switch {
	case g.state == PreparingRebalance:
		g.rejoin(r, m, "member joins again")
	case !m.matches(r.Protocols):
		g.rejoin(r, m, "member changed its metadata")
	case g.state == Stable && g.leader == m.ID:
		// What the leader saw elsewhere, new partitions for one, changes the assignment and not its metadata.
		g.rejoin(r, m, "leader joins again")
	default: // it did not hear the answer, or follows and has nothing new
		g.refuseJoin(r, g.generationAnswer(m, g.leader == m.ID, false))
	}
}

func (g *Group) rejoin(r *joinRequest, m *member, why string) {
	g.update(r, m)
	g.rebalanceOrComplete(why, r.reason(), zap.String("member", m.ID))
}

// update takes over the protocols and time-outs of a join, and parks it.
func (g *Group) update(r *joinRequest, m *member) {
	g.roster.count(m.Protocols, -1)
	m.Protocols = protocolsOf(r.Protocols)
	g.roster.count(m.Protocols, 1)
	g.roster.weigh(m)
	m.RebalanceTimeout, m.SessionTimeout = r.rebalanceTimeout, r.sessionTimeout()
	g.parkJoin(m, r.Version, r.reply)
}

// addMember is addMemberThenRebalanceOrCompleteJoin. The session of a new member is longer: it sends no heartbeats
// while its join waits, and one that hung up cannot be told from one that is patient.
func (g *Group) addMember(r *joinRequest, id string) {
	m := &member{Member: Member{
		ID: id, Instance: r.InstanceID, ClientID: r.client.ID, ClientHost: r.client.Host,
		RebalanceTimeout: r.rebalanceTimeout, SessionTimeout: r.sessionTimeout(), Protocols: protocolsOf(r.Protocols),
	}, fresh: true}
	if g.state == PreparingRebalance && g.previous == Empty {
		g.timers.joinExtended = true
	}
	if g.roster.len() == 0 {
		g.protocolType = r.ProtocolType
	}
	if g.leader == "" {
		g.leader = id
	}
	delete(g.pending, id)
	g.roster.add(m)
	g.parkJoin(m, r.Version, r.reply)
	g.expireAfter(m, g.cfg.NewMemberTimeout)
	g.rebalanceOrComplete("new member", r.reason(), zap.String("member", id), zap.Stringp("instance", r.InstanceID))
}

// generationAnswer tells a member of the generation there is; the leader also of its members.
func (g *Group) generationAnswer(m *member, members, skip bool) *kmsg.JoinGroupResponse {
	resp := kmsg.NewPtrJoinGroupResponse()
	protocolType, protocol := g.protocolType, g.protocol
	resp.Generation, resp.ProtocolType, resp.Protocol = g.generation, &protocolType, &protocol
	resp.LeaderID, resp.MemberID, resp.SkipAssignment = g.leader, m.ID, skip
	if members {
		resp.Members = g.membersAnswer()
	}
	return resp
}

func (g *Group) membersAnswer() []kmsg.JoinGroupResponseMember {
	members := make([]kmsg.JoinGroupResponseMember, 0, g.roster.len())
	for _, m := range g.roster.list {
		members = append(members, kmsg.JoinGroupResponseMember{
			MemberID: m.ID, InstanceID: m.Instance, ProtocolMetadata: m.metadata(g.protocol),
		})
	}
	return members
}
