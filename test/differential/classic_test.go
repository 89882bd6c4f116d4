package differential

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sessionMs outlives a sequence.
const sessionMs = 60_000

// classicNext draws what a consumer of the classic protocol sends next: join, sync or heartbeat.
func (d *draw) classicNext() func(c *client) kmsg.Request {
	join, sync, beat := d.join(true), d.sync(true), d.heartbeat(true)
	return func(c *client) kmsg.Request {
		switch {
		case c.mustJoin:
			return join(c)
		case c.mustSync:
			return sync(c)
		default:
			return beat(c)
		}
	}
}

// classicAny draws any request of the classic protocol, right or wrong.
func (d *draw) classicAny() func(c *client) kmsg.Request {
	return d.weighted(40, func() func(c *client) kmsg.Request { return d.join(false) },
		20, func() func(c *client) kmsg.Request { return d.sync(false) },
		20, func() func(c *client) kmsg.Request { return d.heartbeat(false) }, 20, d.leave)
}

// classicMember draws a member id: mostly the client's own.
func (d *draw) classicMember(right bool) func(c *client) string {
	n := d.IntN(100)
	if right {
		n = 0
	}
	return func(c *client) string {
		switch {
		case n < 70:
			return c.ownID()
		case n < 82 && (!c.traits.named || !c.modern):
			return ""
		case n < 90:
			return "nobody"
		default:
			return cmp.Or(c.clients[(c.slot+1)%len(c.clients)].classicID, "nobody")
		}
	}
}

// compareMembers orders ids that a server has drawn by what they begin with, the client's id or that of the instance.
func (c *client) compareMembers(a, b string) int {
	key := func(id string) string { return id[:min(2, len(id))] + c.member(id) }
	return cmp.Compare(key(a), key(b))
}

// ownID is the id that the client is known by, or proposes.
func (c *client) ownID() string {
	if c.classicID == "" && c.traits.named && c.modern {
		return string(rune('A' + c.slot))
	}
	return c.classicID
}

func (d *draw) generation(right bool) func(c *client) int32 {
	n := d.IntN(100)
	if right {
		n = 0
	}
	return func(c *client) int32 {
		switch {
		case n < 70:
			return c.generation
		case n < 80:
			return c.generation - 1
		case n < 90:
			return c.generation + 1
		default:
			return -1
		}
	}
}

// instance draws an instance id: the client's own, or another one that may belong to somebody else.
func (d *draw) instance(right bool) func(c *client) *string {
	n, stranger := d.IntN(100), d.either("", "i0", "i1", "i9")
	return func(c *client) *string {
		if right || n < 85 || c.traits.named {
			return optional(c.traits.instance)
		}
		return optional(stranger)
	}
}

// subscription draws what a consumer embeds in its join.
func (d *draw) subscription(right bool) func(c *client) []byte {
	version, topics := d.between(0, 3), d.topics()
	all, garbage := d.chance(60), !right && d.chance(3)
	return func(c *client) []byte {
		if garbage {
			return []byte{0xff}
		}
		m := kmsg.NewConsumerMemberMetadata()
		m.Version, m.Topics, m.Generation = version, topics, -1
		for topic, partitions := range c.assigned {
			if all {
				m.OwnedPartitions = append(m.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: topic, Partitions: partitions})
			}
		}
		return m.AppendTo(nil)
	}
}

// topics draws what to subscribe to; one of them may not exist.
func (d *draw) topics() []string {
	if d.nothing {
		return []string{d.either("missing", "none")}
	}
	if d.chance(60) {
		return []string{"four"}
	}
	out := []string{}
	for _, name := range []string{"four", "one", "six", "two", "missing"} {
		if d.chance(40) {
			out = append(out, name)
		}
	}
	if len(out) == 0 { // Kafka counts a member that joins for nothing as one of all topics (see listedDifferences)
		return []string{"two"}
	}
	return out
}

func (d *draw) join(right bool) func(c *client) kmsg.Request {
	version, member, instance := d.version(kmsg.JoinGroup), d.classicMember(right), d.instance(right)
	subscription, reason := d.subscription(right), d.either("", "because")
	session, rebalance := int32(sessionMs), int32(sessionMs)
	kindOf, names := "consumer", []string{"range"}
	switch n := d.IntN(100); {
	case n < 50:
	case n < 70:
		names = []string{"range", "roundrobin"}
	case n < 80:
		names = []string{"roundrobin", "range"}
	case n < 85 && !right:
		names = []string{"roundrobin"}
	case n < 88 && !right:
		names = nil
	case n < 92 && !right:
		kindOf = d.either("connect", "")
	case n < 95 && !right:
		session = []int32{0, 1, 1<<31 - 1}[d.IntN(3)]
	}
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrJoinGroupRequest()
		req.Group, req.MemberID, req.InstanceID = c.group(c.traits.main), member(c), instance(c)
		req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.Reason = kindOf, session, rebalance, optional(reason)
		meta := subscription(c)
		for _, name := range names {
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = name, meta
			req.Protocols = append(req.Protocols, p)
		}
		req.SetVersion(version)
		if version < 5 {
			req.InstanceID = nil
		}
		return req
	}
}

func (d *draw) sync(right bool) func(c *client) kmsg.Request {
	version, member, generation, instance := d.version(kmsg.SyncGroup), d.classicMember(right), d.generation(right), d.instance(right)
	gives, named := right || d.chance(80), d.IntN(100)
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrSyncGroupRequest()
		req.Group, req.MemberID, req.Generation, req.InstanceID = c.group(c.traits.main), member(c), generation(c), instance(c)
		switch {
		case right || named < 70:
			req.ProtocolType, req.Protocol = optional("consumer"), optional(c.protocol)
		case named < 80:
			req.ProtocolType, req.Protocol = optional("connect"), optional(c.protocol)
		case named < 90:
			req.ProtocolType, req.Protocol = optional("consumer"), optional("other")
		}
		members := slices.SortedFunc(slices.Values(c.members), c.compareMembers)
		for i, member := range members {
			if !gives {
				break
			}
			a := kmsg.NewConsumerMemberAssignment()
			a.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: "four", Partitions: []int32{int32(i % 4)}}}
			g := kmsg.NewSyncGroupRequestGroupAssignment()
			g.MemberID, g.MemberAssignment = member, a.AppendTo(nil)
			req.GroupAssignment = append(req.GroupAssignment, g)
		}
		req.SetVersion(version)
		if version < 3 {
			req.InstanceID = nil
		}
		return req
	}
}

func (d *draw) heartbeat(right bool) func(c *client) kmsg.Request {
	version, member, generation, instance := d.version(kmsg.Heartbeat), d.classicMember(right), d.generation(right), d.instance(right)
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation, req.InstanceID = c.group(c.traits.main), member(c), generation(c), instance(c)
		req.SetVersion(version)
		if version < 3 {
			req.InstanceID = nil
		}
		return req
	}
}

func (d *draw) leave() func(c *client) kmsg.Request {
	version := d.version(kmsg.LeaveGroup)
	type leaver struct {
		member   func(c *client) string
		instance func(c *client) *string
	}
	var leavers []leaver
	for range 1 + d.IntN(2) {
		leavers = append(leavers, leaver{d.classicMember(d.chance(60)), d.instance(d.chance(70))})
	}
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Group, req.MemberID = c.group(c.traits.main), leavers[0].member(c)
		for _, l := range leavers {
			m := kmsg.NewLeaveGroupRequestMember()
			m.MemberID, m.InstanceID = l.member(c), l.instance(c)
			req.Members = append(req.Members, m)
		}
		req.SetVersion(version)
		return req
	}
}
