package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
)

// sendOn answers a group member's heartbeat while the agent drains: NOT_COORDINATOR, on which every client looks for the
// coordinator again and goes on with it. One that only finds its connection closed has lost, with its coordinator, perhaps
// all agents that it knows, and some clients then give up their partitions. Nil: the request is forwarded. Whoever joins or
// leaves is served to the end. So is a client of a shared listener while other agents
// are behind its load balancer: FindCoordinator would return the same node.
func (f *forwarded) sendOn(req *edge.Request) kmsg.Response {
	if f.left == nil || !f.left() || f.views.isShared(req) && f.views.Remains(f.catalogue.Load(), req.Client.Listener) {
		return nil
	}
	switch req.Key {
	case int16(kmsg.Heartbeat):
		out := kmsg.NewPtrHeartbeatResponse()
		out.ErrorCode = kerr.NotCoordinator.Code
		return out
	case int16(kmsg.ConsumerGroupHeartbeat):
		in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		if Decode(req, in) != nil || in.MemberEpoch <= 0 {
			return nil
		}
		out := kmsg.NewPtrConsumerGroupHeartbeatResponse()
		out.ErrorCode = kerr.NotCoordinator.Code
		return out
	default:
		return nil
	}
}
