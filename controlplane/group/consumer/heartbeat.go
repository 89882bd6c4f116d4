package consumer

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// Heartbeat answers a ConsumerGroupHeartbeat. With it a member joins (epoch 0), stays, reports its partitions, or leaves
// (-1, -2). If the group does not exist and the epoch is not 0, the caller answers GROUP_ID_NOT_FOUND instead.
// Errors: those of Validate, and GROUP_MAX_SIZE_REACHED, COORDINATOR_LOAD_IN_PROGRESS, UNKNOWN_MEMBER_ID,
// FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID, INVALID_REGULAR_EXPRESSION. After an error the group is unchanged.
// (GroupMetadataManager.consumerGroupHeartbeat)
func (g *Group) Heartbeat(now time.Time, c Client, req *kmsg.ConsumerGroupHeartbeatRequest, cat Catalogue,
	reply func(*kmsg.ConsumerGroupHeartbeatResponse),
) step.Step {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	resp.Version = req.Version
	if m := g.steady(now, c, req, cat); m != nil {
		m.timers.session = now.Add(g.cfg.SessionTimeout)
		resp.MemberID, resp.MemberEpoch = &m.id, m.epoch
		resp.HeartbeatIntervalMillis = g.heartbeatMs()
		return step.Step{Answers: []func(){func() { reply(resp) }}}
	}
	var err *Error
	if err = Validate(req, g.cfg.Assignors); err == nil {
		if req.MemberEpoch < 0 {
			err = g.leave(now, req, cat, resp)
		} else {
			err = g.beat(now, c, req, cat, resp)
		}
	}
	if err != nil {
		// A group just made of a classic one has everything to write yet, and must not come to be by this.
		resp.ErrorCode, resp.ErrorMessage = err.Code, &err.Message
		return step.Step{Answers: []func(){func() { reply(resp) }}}
	}
	return g.answer(func() { reply(resp) })
}

func (g *Group) heartbeatMs() int32 { return int32(g.cfg.HeartbeatInterval.Milliseconds()) }

// steady returns the member if the heartbeat only extends its session: neither the request, the group nor the catalogue has a change for
// it. Most heartbeats are of this kind. steady returns nil for others.
func (g *Group) steady(now time.Time, c Client, req *kmsg.ConsumerGroupHeartbeatRequest, cat Catalogue) *member {
	if req.MemberEpoch <= 0 || req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil || req.Topics != nil ||
		req.ServerAssignor != nil || req.RackID != nil || req.RebalanceTimeoutMillis != -1 {
		return nil
	}
	m := g.members[req.MemberID]
	if m == nil || m.epoch != req.MemberEpoch || !m.reconciledTo(g.epoch) || m.classic != nil ||
		m.clientID != c.ID || m.clientHost != c.Host || req.InstanceID != nil && m.instance != *req.InstanceID ||
		!g.checked || g.version != cat.Version() || g.assignmentEpoch != g.epoch || g.regexesDue(now, cat) {
		return nil
	}
	return m
}

// beat serves a heartbeat that joins or stays.
func (g *Group) beat(now time.Time, c Client, req *kmsg.ConsumerGroupHeartbeatRequest, cat Catalogue,
	resp *kmsg.ConsumerGroupHeartbeatResponse,
) *Error {
	e, err := g.enter(req)
	if err != nil {
		return err
	}
	m := e.next
	m.update(c, req)
	if err := g.checkRegex(m.regex, cat); err != nil {
		return err
	}
	if err := g.checkBytes(e); err != nil {
		return err
	}
	if e.found == nil {
		g.log("member joins consumer group", m)
	}
	g.settle(now, cat, e, false)
	g.retarget(now, cat)
	g.reconcile(now, cat, m, reported(req.Topics), e.resubscribed())
	m.timers.session = now.Add(g.cfg.SessionTimeout)
	g.arm(m)

	resp.MemberID, resp.MemberEpoch, resp.HeartbeatIntervalMillis = &m.id, m.epoch, g.heartbeatMs()
	full := req.RebalanceTimeoutMillis != -1 && req.Topics != nil &&
		(req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil)
	if full || req.MemberEpoch == epochJoin || !maps.Equal(m.assigned, e.before.assigned) {
		resp.Assignment = answerAssignment(m.assigned)
	}
	return nil
}

// entry is a member on its way into, or on within, the group.
type entry struct {
	found  *member // the one in the group that next takes the place of; nil: there is none
	before *member // what next was before the request changed it
	next   *member // not yet in the group
}

// enter finds the member of a heartbeat, or makes it, and checks that it may do what it asks for.
func (g *Group) enter(req *kmsg.ConsumerGroupHeartbeatRequest) (entry, *Error) {
	if err := g.checkSize(req.MemberID, req.InstanceID); err != nil {
		return entry{}, err
	}
	name := req.MemberID
	if name == "" {
		name = g.cfg.NewMemberID()
	}
	joins := req.MemberEpoch == epochJoin
	var e entry
	var err *Error
	if req.InstanceID == nil {
		e, err = g.enterDynamic(name, joins)
	} else {
		e, err = g.enterStatic(name, *req.InstanceID, joins, false)
	}
	if err != nil {
		return entry{}, err
	}
	if e.found != nil && e.found.id == name {
		if err := checkEpoch(e.found, req.MemberEpoch, reported(req.Topics)); err != nil {
			return entry{}, err
		}
	}
	return e, nil
}

// checkSize refuses a member that the group has no room for. A static member takes the place of the one with its instance id.
// (GroupMetadataManager.throwIfConsumerGroupIsFull)
func (g *Group) checkSize(name string, instance *string) *Error {
	if g.Has(name, instance) {
		return nil
	}
	if g.cfg.MemberLimit != nil {
		if limit := g.cfg.MemberLimit(); limit > 0 && int64(len(g.members)) >= limit {
			return fault(kerr.GroupMaxSizeReached, "%s", &metadata.LimitError{Kind: metadata.LimitGroupMembers, Limit: limit})
		}
	}
	if g.cfg.MaxSize <= 0 || len(g.members) < g.cfg.MaxSize {
		return nil
	}
	return fault(kerr.GroupMaxSizeReached, "The consumer group has reached its maximum capacity of %d members.", g.cfg.MaxSize)
}

// Has reports whether the group has a member with this ID or instance ID.
func (g *Group) Has(name string, instance *string) bool {
	_, ok := g.members[name]
	if instance != nil && !ok {
		_, ok = g.static[*instance]
	}
	return ok
}

func (g *Group) enterDynamic(name string, joins bool) (entry, *Error) {
	found, ok := g.members[name]
	switch {
	case ok:
		return entry{found: found, before: found, next: found.clone()}, nil
	case !joins:
		return entry{}, unknownMember(g.id, name)
	default:
		m := newMember(name)
		return entry{before: m.clone(), next: m}, nil
	}
}

// enterStatic is enterDynamic for a member with an instance id. One that joins takes the place, the target and the
// partitions of the instance's last member, which must have gone with epoch -2 unless one of the two is classic.
func (g *Group) enterStatic(name, instance string, joins, isClassic bool) (entry, *Error) {
	found, ok := g.members[g.static[instance]]
	switch {
	case !joins && !ok:
		return entry{}, fault(kerr.UnknownMemberID, "Instance id %s is unknown.", instance)
	case !joins && found.id != name:
		return entry{}, fault(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.",
			name, instance, found.id)
	case !joins:
		return entry{found: found, before: found, next: found.clone()}, nil
	case !ok:
		return g.enterDynamic(name, true)
	case !isClassic && found.classic == nil && found.epoch != epochLeaveStatic:
		return entry{}, fault(kerr.UnreleasedInstanceID,
			"Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.",
			name, instance, found.id)
	}
	m := found.clone()
	m.id, m.epoch, m.previous, m.timers = name, 0, 0, memberTimers{}
	g.log("static member takes the place of another", m, zap.String("replaced", found.id))
	return entry{found: found, before: m.clone(), next: m}, nil
}

// checkEpoch fences a member whose epoch is not the group's. The epoch before is taken while the member owns nothing
// that it was not given: the answer with the new epoch may be lost.
func checkEpoch(m *member, epoch int32, owned reported) *Error {
	switch {
	case epoch == epochJoin || epoch == m.epoch:
		return nil
	case epoch > m.epoch:
		return fault(kerr.FencedMemberEpoch, "The consumer group member has a greater member epoch (%d) than the one known by "+
			"the group coordinator (%d). The member must abandon all its partitions and rejoin.", epoch, m.epoch)
	case epoch != m.previous || !owned.within(m.assigned):
		return fault(kerr.FencedMemberEpoch, "The consumer group member has a smaller member epoch (%d) than the one known by "+
			"the group coordinator (%d). The member must abandon all its partitions and rejoin.", epoch, m.epoch)
	default:
		return nil
	}
}

// update takes over what a heartbeat tells; null fields tell nothing.
func (m *member) update(c Client, req *kmsg.ConsumerGroupHeartbeatRequest) {
	m.clientID, m.clientHost, m.classic = c.ID, c.Host, nil
	m.timers.join, m.timers.sync = time.Time{}, time.Time{}
	if req.InstanceID != nil {
		m.instance = *req.InstanceID
	}
	if req.RackID != nil {
		m.rack = *req.RackID
	}
	if req.RebalanceTimeoutMillis != -1 {
		m.rebalanceMs = req.RebalanceTimeoutMillis
	}
	if req.ServerAssignor != nil {
		m.assignor = *req.ServerAssignor
	}
	if req.SubscribedTopicNames != nil {
		m.topics = nameSet(req.SubscribedTopicNames)
	}
	if req.SubscribedTopicRegex != nil {
		m.regex = *req.SubscribedTopicRegex
	}
}

// nameSet gives names in ascending order, each once.
func nameSet(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

func answerAssignment(assigned epochs) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	out := &kmsg.ConsumerGroupHeartbeatResponseAssignment{Topics: []kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{}}
	byTopic(assigned.sorted(), func(t id.Topic, partitions []int32) {
		out.Topics = append(out.Topics, kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic{TopicID: t, Partitions: partitions})
	})
	return out
}

// byTopic calls fn for each topic of partitions, which are in ascending order.
func byTopic(partitions []id.TopicPartition, fn func(t id.Topic, partitions []int32)) {
	for len(partitions) > 0 {
		t := partitions[0].Topic
		var numbers []int32
		for len(partitions) > 0 && partitions[0].Topic == t {
			numbers = append(numbers, partitions[0].Partition)
			partitions = partitions[1:]
		}
		fn(t, numbers)
	}
}
