package kafka

import (
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
)

// redirectDraining answers a member's heartbeat, or a commit without a member, with NOT_COORDINATOR while the agent drains, so that the
// client looks for another coordinator before its connection closes. Without it, some clients lose the only agent they know and give up
// their partitions. It returns nil if the request is to be forwarded: joins, leaves, members' commits, transactions, and clients of a
// shared listener whose load balancer has other agents, since FindCoordinator would return the same node. A connection has one commit
// refused; a heartbeat comes seconds after the one before.
func (f *forwarded) redirectDraining(req *edge.Request) kmsg.Response {
	if f.left == nil || !f.left() || f.views.isShared(req) && f.views.HasSibling(f.catalogue.Load(), req.Client.Listener) {
		return nil
	}
	if !slices.Contains(drained, kmsg.Key(req.Key)) {
		return nil
	}
	in := kmsg.RequestForKey(req.Key)
	if in == nil || Decode(req, in) != nil || redirectable(in) == "" {
		return nil
	}
	if kmsg.Key(req.Key) == kmsg.OffsetCommit && !f.drained.allow(strconv.FormatUint(req.Client.ID, 10), req.Arrived) {
		return nil
	}
	return failed(in, failure{code: kerr.NotCoordinator.Code})
}

// drained are the APIs by which a draining agent redirects clients to another coordinator.
var drained = []kmsg.Key{kmsg.Heartbeat, kmsg.ConsumerGroupHeartbeat, kmsg.OffsetCommit}
