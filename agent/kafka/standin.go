package kafka

import (
	"cmp"
	"math"
	"slices"

	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/internal/assign"
)

// maxNode is the highest node id. Stand-ins count down from it; agents' node ids are given in turn from 1.
const maxNode = math.MaxInt32

// standIns gives, for each zone that has lost its last agent and is remembered, a node of its own that is a replica of every
// partition and the leader of none, at the address of an agent that the client sees. So the racks of partitions stay when a
// zone empties and refills: Java's and librdkafka's classic consumers with client.rack join anew when they change
// (ConsumerCoordinator.MetadataSnapshot, KIP-881; rd_kafka_metadata_internal), and replicas that no broker is named for have
// no rack to them. A client has nothing to ask this node in particular, and whatever it asks it an agent of its own answers.
func (v *zoneView) standIns(gone []*view.Member, living map[string]*group, listener string) (groups []group) {
	if len(v.own.agents) == 0 {
		return nil
	}
	gone = slices.SortedFunc(slices.Values(gone), func(a, b *view.Member) int { return cmp.Compare(a.Zone, b.Zone) })
	for i, m := range gone {
		reached := func(e view.Endpoint) bool { return e.Listener == listener }
		if m.Zone == "" || living[m.Zone] != nil || !slices.ContainsFunc(m.Endpoints, reached) {
			continue
		}
		// Not the first port of the first agent, where there is another: that one answers for the cluster (ListTransactions).
		ports := v.own.ports[len(v.own.ports)-1]
		at := ports[len(ports)-1]
		at.node, at.zone = maxNode-int32(i), m.Zone
		groups = append(groups, group{
			zone: m.Zone, agents: []assign.Agent{{ID: uint32(m.Session), Ports: 1}}, ports: [][]port{{at}},
		})
	}
	return groups
}

// apart leaves out of other zones' replicas those in the zone of the partition's leader. It matters where a client's own zone
// has no agent, so that leaders are in any.
func (v *zoneView) apart(nodes [][]int32) {
	zoneOf := make(map[int32]string, len(v.brokers))
	for _, ports := range v.own.ports {
		for _, p := range ports {
			zoneOf[p.node] = p.zone
		}
	}
	for i, g := range v.others {
		for p, leader := range nodes[0] {
			if zoneOf[leader] == g.zone {
				nodes[1+i][p] = noReplica
			}
		}
	}
}

// noReplica is in the place of a node that a partition does not have in some zone.
const noReplica = -1
