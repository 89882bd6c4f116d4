package consumer

import (
	"maps"
	"slices"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata/id"
)

// old is a client of the classic protocol inside the group.
type old struct {
	id         string
	eager      bool // gives up everything before it joins again, as range and round robin do
	generation int32
	joined     bool // has to sync
	in         bool
	has        map[id.TopicPartition]bool
}

func (c *old) uses() map[id.TopicPartition]bool { return c.has }
func (c *old) reads() []string                  { return []string{"t"} }

func (h *history) classicMembers() int {
	n := 0
	for _, m := range h.group.members {
		if m.classic != nil {
			n++
		}
	}
	return n
}

func (c *old) turn(h *history) {
	switch {
	case c.joined:
		c.sync(h)
	case !c.in:
		c.join(h)
	default:
		c.heartbeat(h)
	}
}

func (c *old) join(h *history) {
	if c.eager {
		clear(c.has)
	}
	if h.group.Empty() {
		return // it would become a classic group
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.ProtocolType = 9, "g", c.id, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30_000, 30_000
	s := kmsg.NewConsumerMemberMetadata()
	s.Version, s.Topics = 1, c.reads()
	byTopic(slices.SortedFunc(maps.Keys(c.has), id.TopicPartition.Compare), func(t id.Topic, numbers []int32) {
		name, _ := h.cat.TopicName(t)
		s.OwnedPartitions = append(s.OwnedPartitions, kmsg.ConsumerMemberMetadataOwnedPartition{Topic: name, Partitions: numbers})
	})
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "cooperative-sticky", Metadata: s.AppendTo(nil)}}
	lost := h.lost()
	h.do(h.group.Join(h.now, Client{ID: "c"}, req, h.cat, func(resp *kmsg.JoinGroupResponse) {
		require.Zero(h.t, resp.ErrorCode)
		if !lost {
			c.generation, c.joined = resp.Generation, true
		}
	}))
}

func (c *old) sync(h *history) {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 5, "g", c.id, c.generation
	lost := h.lost()
	h.do(h.group.Sync(h.now, req, h.cat, func(resp *kmsg.SyncGroupResponse) {
		c.joined = false
		switch {
		case lost:
			c.in = false
		case resp.ErrorCode != 0:
			c.fail(h, resp.ErrorCode)
		default:
			c.follow(h, resp.MemberAssignment)
		}
	}))
}

// follow gives up what leaves, then uses what comes; a client that gave something up joins again (KIP-429).
func (c *old) follow(h *history, assignment []byte) {
	next, reason := readAssignment(assignment, h.cat)
	require.Empty(h.t, reason)
	c.in = true
	for p := range c.has {
		c.in = c.in && next[p]
	}
	c.has = next
}

func (c *old) heartbeat(h *history) {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 4, "g", c.id, c.generation
	h.do(h.group.ClassicHeartbeat(h.now, req, func(resp *kmsg.HeartbeatResponse) { c.fail(h, resp.ErrorCode) }))
}

// fail joins again, as a new member and with nothing if the group does not know it.
func (c *old) fail(h *history, code int16) {
	switch code {
	case 0:
	case 27: // REBALANCE_IN_PROGRESS
		c.in = false
	default:
		c.in, c.id, c.has = false, h.name(), make(map[id.TopicPartition]bool)
	}
}

func (c *old) leave(h *history) {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, "g"
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: c.id}}
	h.do(h.group.ClassicLeave(h.now, req, h.cat, func(*kmsg.LeaveGroupResponse) {}))
}

func (c *old) settle(h *history) bool {
	if h.group.Empty() {
		c.has = nil
		return true
	}
	done := c.in
	for range 3 {
		c.turn(h)
	}
	return done && c.in
}
