package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/fetch"
)

// redirectVersion is the first Fetch version whose clients can be told where to go (KIP-951).
const redirectVersion = 16

// elsewhere holds the new leaders of redirected partitions. The zero value redirects none.
type elsewhere struct {
	leaders   map[int]*fetch.Leader // by index of the request's partitions
	endpoints []fetch.Endpoint      // of these leaders
}

// redirect refuses partitions with NOT_LEADER_OR_FOLLOWER and names their new leaders (KIP-951), once this agent has left the
// membership. It serves a partition to the end if the client cannot follow (Fetch below version 16, no epoch, or one that is not
// older), if there is no new leader, or if the leader is this zone's load balancer, which may lead back here.
func (f *Fetch) redirect(req *edge.Request, version int16, s *fetching) (to elsewhere) {
	if version < redirectVersion || f.cfg.Views == nil || !f.cfg.Fetcher.Draining() {
		return to
	}
	snapshot := f.cfg.Catalogue.Load()
	if snapshot.IsMember() {
		return to // the owner does not know yet that this agent leaves
	}
	zone := f.cfg.Views.of(snapshot, req)
	to.leaders = make(map[int]*fetch.Leader)
	for i, t := range s.tracked {
		p := &s.partitions[i]
		topic, ok := snapshot.TopicByID(p.ID.Topic)
		if p.Refused != nil || !ok {
			continue
		}
		leader, ok := zone.leader(topic, p.ID.Partition)
		if !ok || t.Epoch < 0 || t.Epoch >= leader.epoch || f.cfg.Views.isOwnNode(req.Client.Listener, leader.node) {
			continue
		}
		p.Refused = kerr.NotLeaderForPartition
		to.leaders[i] = &fetch.Leader{NodeID: leader.node, Epoch: leader.epoch}
		to.add(zone, leader.node)
	}
	return to
}

// add notes where a leader is.
func (to *elsewhere) add(zone *zoneView, node int32) {
	for i := range to.endpoints {
		if to.endpoints[i].NodeID == node {
			return
		}
	}
	if b := zone.broker(node); b != nil {
		to.endpoints = append(to.endpoints, fetch.Endpoint{NodeID: b.NodeID, Host: b.Host, Port: b.Port, Rack: b.Rack})
	}
}
