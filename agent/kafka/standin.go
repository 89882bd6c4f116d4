package kafka

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/internal/assign"
)

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
		at.node, at.zone = assign.FirstStandIn-int32(i), m.Zone
		groups = append(groups, group{
			zone: m.Zone, agents: []assign.Agent{{ID: uint32(m.Session), Ports: 1}}, ports: [][]port{{at}},
		})
	}
	return groups
}

// nodesByIDMajor and nodesByIDMinor are the first version of librdkafka that tells nodes by their ids. Earlier ones take two nodes at one
// address for one whose id changed: its partitions have no leader from then on (librdkafka's issue 4212, mended in 2.10.0).
const nodesByIDMajor, nodesByIDMinor = 2, 10

// rdkafkaVersion finds librdkafka's version in a client's name and version, in which libraries over it tell it too.
var rdkafkaVersion = regexp.MustCompile(`rdkafka[- ]v?(\d+)\.(\d+)`)

// takesStandIns tells whether a client's software is known to tell nodes by their ids, whatever their addresses, among those
// that stand-ins are for. What is not known may be an old librdkafka, that any name can be given.
func takesStandIns(s edge.Software) bool {
	if s.Name == "apache-kafka-java" {
		return true
	}
	major, minor, ok := rdkafka(s)
	return ok && (major > nodesByIDMajor || major == nodesByIDMajor && minor >= nodesByIDMinor)
}

// rdkafka gives the version of the librdkafka that a client is, or is made with; false if it is something else.
func rdkafka(s edge.Software) (major, minor int, ok bool) {
	found := rdkafkaVersion.FindStringSubmatch(s.Name + " " + s.Version)
	if found == nil {
		return 0, 0, false
	}
	major, _ = strconv.Atoi(found[1])
	minor, _ = strconv.Atoi(found[2])
	return major, minor, true
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
