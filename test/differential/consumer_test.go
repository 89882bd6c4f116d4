package differential

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerNext draws what a consumer of the consumer protocol sends next: a full heartbeat to join, else one that may
// report what it owns.
func (d *draw) consumerNext() func(c *client) kmsg.Request {
	join, stay := d.consumerHeartbeat(joins), d.consumerHeartbeat(stays)
	return func(c *client) kmsg.Request {
		if c.epoch == 0 {
			return join(c)
		}
		return stay(c)
	}
}

// consumerAny draws a heartbeat with anything in it.
func (d *draw) consumerAny() func(c *client) kmsg.Request {
	return d.consumerHeartbeat([]manner{joins, stays, leaves, anyhow, anyhow}[d.IntN(5)])
}

// manner is how a heartbeat is meant.
type manner int

const (
	joins manner = iota
	stays
	leaves
	anyhow
)

func (d *draw) consumerHeartbeat(how manner) func(c *client) kmsg.Request {
	version, epoch := d.between(0, 1), d.epoch(how)
	instance, member := d.instance(how != anyhow), d.consumerMember(how != anyhow)
	owned, topics, change := d.owned(how), d.topics(), how == joins || d.chance(15)
	full, rack, bogus := how == joins || d.chance(15), d.either("", "", "", "r1"), how == anyhow && d.chance(10)
	return func(c *client) kmsg.Request {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Group, req.MemberID, req.MemberEpoch = c.group(c.traits.main), member(c), epoch(c)
		req.InstanceID, req.RackID, req.Topics = instance(c), optional(rack), owned(c)
		if req.MemberEpoch == 0 {
			// No dynamic member becomes static: see listedDifferences.
			req.MemberID, req.InstanceID = c.consumerID, optional(c.traits.instance)
		}
		if full {
			req.RebalanceTimeoutMillis = sessionMs
			req.ServerAssignor = optional(c.traits.assignor)
		}
		if change || full {
			req.SubscribedTopicNames = append([]string{}, topics...)
		}
		if how == stays && req.Topics == nil && full {
			req.Topics = c.report(1)
		}
		if bogus {
			req.ServerAssignor = optional("bogus")
		}
		req.SetVersion(version)
		return req
	}
}

func (d *draw) consumerMember(right bool) func(c *client) string {
	n := d.IntN(100)
	return func(c *client) string {
		switch {
		case right || n < 85:
			return c.consumerID
		case n < 92:
			return "z"
		default:
			return c.clients[(c.slot+1)%len(c.clients)].consumerID
		}
	}
}

func (d *draw) epoch(how manner) func(c *client) int32 {
	n := d.IntN(100)
	return func(c *client) int32 {
		switch {
		case how == joins:
			return 0
		case how == stays:
			return c.epoch
		case how == leaves:
			if n < 40 && c.traits.instance != "" {
				return -2
			}
			return -1
		case n < 30:
			return c.epoch
		case n < 60:
			return c.epoch - 1
		case n < 75:
			return c.epoch + 1
		case n < 85:
			return 0
		case n < 90:
			return -2
		case n < 95:
			return -3
		default:
			return 1
		}
	}
}

// owned draws what a member reports: nothing at all, all it was given, a part, or a partition that is not its own.
func (d *draw) owned(how manner) func(c *client) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	n := d.IntN(100)
	return func(c *client) []kmsg.ConsumerGroupHeartbeatRequestTopic {
		switch {
		case how == joins:
			return []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		case n < 30:
			return nil
		case n < 75:
			return c.report(1)
		case n < 85:
			return c.report(2)
		case n < 95:
			return []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		default:
			return append(c.report(1), kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: c.server.topics["six"], Partitions: []int32{5}})
		}
	}
}

// report is what the client was given, or one in so many of each topic's partitions.
func (c *client) report(oneIn int) []kmsg.ConsumerGroupHeartbeatRequestTopic {
	out := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for _, name := range []string{"four", "one", "six", "two"} {
		var some []int32
		for i, p := range c.assigned[name] {
			if i%oneIn == 0 {
				some = append(some, p)
			}
		}
		if len(some) > 0 {
			out = append(out, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: c.server.topics[name], Partitions: slices.Clone(some)})
		}
	}
	return out
}
