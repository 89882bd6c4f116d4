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

// standIns returns a group of one node for each remembered zone that has lost its last agent. The node is a replica of every partition,
// leads none, and has the address of an agent that the client sees. So the racks of partitions stay when a zone empties and refills:
// Java's and librdkafka's classic consumers with client.rack rejoin when they change (ConsumerCoordinator.MetadataSnapshot, KIP-881;
// rd_kafka_metadata_internal), and a replica without a broker has no rack. Clients have no reason to send requests to such a node. The
// agent at its address answers them.
func (v *zoneView) standIns(gone []*view.Member, living map[string]*assign.Group, listener string) (groups []assign.Group) {
	own := &v.nodes.Own
	if len(own.Agents) == 0 {
		return nil
	}
	gone = slices.SortedFunc(slices.Values(gone), func(a, b *view.Member) int { return cmp.Compare(a.Zone, b.Zone) })
	for i, m := range gone {
		reached := func(e view.Endpoint) bool { return e.Listener == listener }
		if m.Zone == "" || living[m.Zone] != nil || !slices.ContainsFunc(m.Endpoints, reached) {
			continue
		}
		// Not the first node of the agent, if it has another: the first one lists transactions.
		last := own.Nodes[len(own.Nodes)-1]
		at := last[len(last)-1]
		at.ID, at.Zone = assign.FirstStandIn-int32(i), m.Zone
		g := assign.Group{Zone: m.Zone}
		g.Add(uint32(m.Session), []assign.Node{at})
		groups = append(groups, g)
	}
	return groups
}

// nodesByIDMajor and nodesByIDMinor are the first version of librdkafka that identifies nodes by ID. Earlier versions take two nodes at one
// address for one node with a changed ID, whose partitions then have no leader (librdkafka issue 4212, fixed in 2.10.0).
const nodesByIDMajor, nodesByIDMinor = 2, 10

// rdkafkaVersion finds the version of librdkafka in the name and version of a client, or of a library over librdkafka.
var rdkafkaVersion = regexp.MustCompile(`rdkafka[- ]v?(\d+)\.(\d+)`)

// takesStandIns reports whether a client's software identifies nodes by ID alone and rejoins groups when racks change. Any client can
// name itself as it likes, so an unknown name may be an old librdkafka.
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
