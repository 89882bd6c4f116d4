package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/fetch"
	"github.com/freshet-io/freshet/agent/view"
)

// redirectVersion is the first Fetch version whose clients can be told where to go (KIP-951).
const redirectVersion = 16

// elsewhere is where partitions of a fetch are to be read from now on. The zero value sends nobody anywhere.
type elsewhere struct {
	leaders   map[int]*fetch.Leader // by index of the request's partitions
	endpoints []fetch.Endpoint      // of these leaders
}

// redirect refuses the partitions that their client is to read from another agent, because this one has left the
// membership, and says which. Only a client that knows an older epoch would go; any other is served to the end, as are
// those that could not be told, all where no other agent is left, and those that a load balancer would bring back here.
func (f *Fetch) redirect(req *edge.Request, version int16, s *fetching) (to elsewhere) {
	if version < redirectVersion || f.cfg.Views == nil || !f.cfg.Fetcher.Draining() {
		return to
	}
	snapshot := f.cfg.Catalogue.Load()
	if isMember(snapshot) {
		return to // the owner could not be told
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
		if !ok || t.Epoch < 0 || t.Epoch >= leader.epoch || f.cfg.Views.behind(req.Client.Listener, leader.node) {
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

// isMember tells whether Metadata shows this agent.
func isMember(s *view.Snapshot) bool {
	for _, m := range s.Members {
		if m.Session == s.Session {
			return true
		}
	}
	return false
}
