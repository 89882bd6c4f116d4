package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/group/classic"
	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/controlplane/session"
)

// JoinGroup, key 11, versions 0-9. The classic protocol in classic groups, and in consumer groups that have members
// (GroupMetadataManager.classicGroupJoin).
//
//	1  has the rebalance time-out
//	4  wants dynamic members to join with an id (KIP-394)
//	5  has static members (KIP-345)
//	6  is flexible
//	7  answers the protocol type (KIP-559)
//	8  has a reason (KIP-800)
//	9  tells a returning static leader to skip the assignment (KIP-814)

// Versions that change something.
const (
	joinProtocolTypeSince = 7
	syncProtocolSince     = 5
)

func (c *call) joinGroup(in *kmsg.JoinGroupRequest) {
	if in.Group == "" {
		c.answer(refusal(in, kerr.InvalidGroupID.Code))
		return
	}
	c.with(in.Group, func(g *group, now time.Time) step.Step {
		reply := joinReply(through[*kmsg.JoinGroupResponse](c, g), in.Version, func(code int16) { c.countRefusal(code, in.Group) })
		if s, refused := g.refuseNew(c, now, in.MemberID, in.InstanceID); refused {
			return s
		}
		if g.classic != nil {
			return g.classic.Join(now, c.client(), in, reply)
		}
		if !g.consumer.Empty() {
			return g.afterConsumer(now, g.consumer.Join(now, c.client(), in, c.topics.Load(), reply))
		}
		// An empty consumer group makes way for a classic one, if that comes to be.
		fresh := classic.New(g.name, c.classic)
		s := fresh.Join(now, c.client(), in, reply)
		if fresh.Stored() {
			g.classic, g.consumer = fresh, nil
		}
		return s
	})
}

// joinReply has errors name no protocol: null from version 7 on, as in Kafka. It calls refused with each error.
func joinReply(reply func(*kmsg.JoinGroupResponse), version int16, refused func(code int16)) func(*kmsg.JoinGroupResponse) {
	return func(out *kmsg.JoinGroupResponse) {
		if out.ErrorCode != 0 {
			refused(out.ErrorCode)
		}
		if version >= joinProtocolTypeSince && out.ErrorCode != 0 {
			out.Protocol = nil
		}
		reply(out)
	}
}

// SyncGroup, key 14, versions 0-5.
//
//	3  has static members (KIP-345)
//	4  is flexible
//	5  names protocol type and protocol (KIP-559)

func (c *call) syncGroup(in *kmsg.SyncGroupRequest) {
	if in.Version >= syncProtocolSince && (in.ProtocolType == nil || in.Protocol == nil) {
		c.answer(refusal(in, kerr.InconsistentGroupProtocol.Code))
		return
	}
	if in.Group == "" {
		c.answer(refusal(in, kerr.InvalidGroupID.Code))
		return
	}
	c.with(in.Group, func(g *group, now time.Time) step.Step {
		reply := through[*kmsg.SyncGroupResponse](c, g)
		if g.consumer != nil {
			return g.afterConsumer(now, g.consumer.Sync(now, in, c.topics.Load(), reply))
		}
		return g.classic.Sync(now, c.client(), in, reply)
	})
}

// Heartbeat, key 12, versions 0-4.
//
//	3  has static members (KIP-345)
//	4  is flexible

func (c *call) heartbeat(in *kmsg.HeartbeatRequest) {
	if in.Group == "" {
		c.answer(refusal(in, kerr.InvalidGroupID.Code))
		return
	}
	c.with(in.Group, func(g *group, now time.Time) step.Step {
		reply := through[*kmsg.HeartbeatResponse](c, g)
		if g.consumer != nil {
			return g.afterConsumer(now, g.consumer.ClassicHeartbeat(now, in, reply))
		}
		return g.classic.Heartbeat(now, in, session.AnswerOf(c.ctx).Repeat, reply)
	})
}

// LeaveGroup, key 13, versions 0-5.
//
//	3  has several members, by id or instance (KIP-345)
//	4  is flexible
//	5  has reasons (KIP-800)

func (c *call) leaveGroup(in *kmsg.LeaveGroupRequest) {
	if in.Group == "" {
		c.answer(refusal(in, kerr.InvalidGroupID.Code))
		return
	}
	c.with(in.Group, func(g *group, now time.Time) step.Step {
		reply := through[*kmsg.LeaveGroupResponse](c, g)
		if g.consumer != nil {
			return g.afterConsumer(now, g.consumer.ClassicLeave(now, in, c.topics.Load(), reply))
		}
		return g.classic.Leave(now, c.client(), in, reply)
	})
}
