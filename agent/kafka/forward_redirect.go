package kafka

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
)

// redirectDraining answers a member's heartbeat with NOT_COORDINATOR while the agent drains, so that the client looks for another
// coordinator before its connection closes. Without it, some clients lose the only agent they know and give up their partitions. It
// returns nil if the request is to be forwarded: joins, leaves, and clients of a shared listener whose load balancer has other agents,
// since FindCoordinator would return the same node.
func (f *forwarded) redirectDraining(req *edge.Request) kmsg.Response {
	if f.left == nil || !f.left() || f.views.isShared(req) && f.views.HasSibling(f.catalogue.Load(), req.Client.Listener) {
		return nil
	}
	if !slices.Contains(heartbeats, kmsg.Key(req.Key)) {
		return nil
	}
	in := kmsg.RequestForKey(req.Key)
	if in == nil || Decode(req, in) != nil || redirectable(in) == "" {
		return nil
	}
	return failed(in, failure{code: kerr.NotCoordinator.Code})
}

// heartbeats are the APIs by which group members are redirected.
var heartbeats = []kmsg.Key{kmsg.Heartbeat, kmsg.ConsumerGroupHeartbeat}
