package kafka

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// maxViews bounds the views kept of one membership: (zone, listener) pairs that clients asked from. All zones without
	// agents count as one.
	maxViews = 256
	// maxViewTopics bounds the topics of a view whose assignment is kept; past it they are worked out anew.
	maxViewTopics = 100_000
)

// Views are the cluster as clients of a zone see it by a listener: which agents there are and which of them each
// partition belongs to. A view is a pure function of the membership, so all agents show the same.
//
// A client sees the agents of its zone, or all agents if the zone has none. If the zone is the same at every agent, the client also
// sees one replica per other zone, to tell racks apart and to have brokers left when its zone loses all agents. A client whose
// software supports it sees stand-ins for zones without agents (standIns). A client of unknown zone is in the zone of each
// agent that it reaches. It sees that zone's agents only: at another zone's agent its leaders would change.
type Views struct {
	zones  *Zones
	shared map[string]*sharedListener // by name; nil: none
	lists  topicLists

	mu struct {
		sync.Mutex
		current *membership // nil before the first request
	}
}

type viewKey struct {
	zone     string
	anyZone  bool // whether the zone has no agent at the listener; zone is "" then
	named    bool
	standIns bool // whether zones without agents are shown
	listener string
}

// NewViews builds the views of a catalogue, without metrics.
func NewViews(zones *Zones) *Views {
	return &Views{zones: zones, lists: topicLists{encoded: newEncoded(prometheus.NewRegistry())}}
}

// Register shows the views' metrics. It is called before the first request, at most once.
func (v *Views) Register(r prometheus.Registerer) { v.lists.encoded = newEncoded(r) }

// of gives the view that a request's client has of a snapshot.
func (v *Views) of(s *view.Snapshot, req *edge.Request) *zoneView {
	key := v.key(s, req)
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.membershipOf(s).view(key)
}

// key tells which view of a snapshot is a request's client's.
func (v *Views) key(s *view.Snapshot, req *edge.Request) viewKey {
	zone, named := v.zones.Of(req)
	return viewKey{
		zone: zone, named: named, listener: req.Client.Listener,
		standIns: named && len(s.Gone) > 0 && takesStandIns(req.Client.Software()),
	}
}

// zoneView is one membership as the clients of a zone see it by one listener. What it shows does not change.
type zoneView struct {
	epoch   int32   // leader epoch of all partitions
	home    bool    // whether the clients' zone has agents
	own     group   // agents that partitions are given to
	others  []group // one per other zone that is shown
	brokers []kmsg.MetadataResponseBroker

	mu struct {
		sync.Mutex
		places map[id.Topic]places
	}
}

// places are the nodes that a topic's partitions belong to.
type places struct {
	partitions int32
	nodes      func() [][]int32 // by zone, then partition; worked out once
}

// group is the agents of one zone that a listener reaches, in the order of sessions.
type group struct {
	zone   string // "" if of all zones
	agents []assign.Agent
	ports  [][]port // by agent
}

// port is one address of an agent, a broker as clients see it.
type port struct {
	node int32
	host string
	port int32
	zone string
}

func newZoneView(s *membership, key viewKey) *zoneView {
	zones, all := s.groups(key.listener)
	names := slices.Sorted(maps.Keys(zones))
	v := &zoneView{epoch: view.LeaderEpoch(s.version)}
	v.mu.places = make(map[id.Topic]places)
	own, found := zones[key.zone]
	if key.anyZone || !found {
		own, found = all, false
	}
	v.home, v.own = found, *own
	if key.named {
		for _, name := range names {
			if name != key.zone || !found {
				v.others = append(v.others, *zones[name])
			}
		}
	}
	shown := []group{v.own}
	if found {
		shown = append(shown, v.others...) // else they are among the own ones
	}
	if key.standIns {
		standIns := v.standIns(s.gone, zones, key.listener)
		v.others, shown = append(v.others, standIns...), append(shown, standIns...)
	}
	v.brokers = brokersOf(shown)
	return v
}

// portsOf gives an agent's addresses by one listener.
func portsOf(m *view.Member, listener string) []port {
	var ports []port
	for i, e := range m.Endpoints {
		if e.Listener == listener && i < len(m.NodeIDs) {
			ports = append(ports, port{node: m.NodeIDs[i], host: e.Host, port: e.Port, zone: m.Zone})
		}
	}
	return ports
}

func (g *group) add(agent uint32, ports []port) {
	g.agents = append(g.agents, assign.Agent{ID: agent, Ports: int32(len(ports))})
	g.ports = append(g.ports, ports)
}

func brokersOf(groups []group) []kmsg.MetadataResponseBroker {
	var brokers []kmsg.MetadataResponseBroker
	for _, g := range groups {
		for _, ports := range g.ports {
			for _, p := range ports {
				b := kmsg.NewMetadataResponseBroker()
				b.NodeID, b.Host, b.Port = p.node, p.host, p.port
				if p.zone != "" {
					b.Rack = &p.zone
				}
				brokers = append(brokers, b)
			}
		}
	}
	return brokers
}

// controller names a node to send admin requests to; any would do. -1 without agents.
func (v *zoneView) controller() int32 {
	if len(v.brokers) == 0 {
		return -1
	}
	return v.brokers[0].NodeID
}

// coordinator gives the node that a coordinator's key belongs to.
func (v *zoneView) coordinator(kind int8, key string) (port, bool) {
	sessions := make([]uint32, len(v.own.agents))
	for i, a := range v.own.agents {
		sessions[i] = a.ID
	}
	i := assign.Key(byte(kind), key, sessions)
	if i < 0 {
		return port{}, false
	}
	return v.own.ports[i][0], true
}

// nodes gives who each partition of a topic belongs to, by zone, the client's first. The slices are shared: do not change
// them.
func (v *zoneView) nodes(t *view.Topic) [][]int32 {
	v.mu.Lock()
	known, ok := v.mu.places[t.ID]
	if !ok || known.partitions != t.Partitions {
		if len(v.mu.places) >= maxViewTopics {
			clear(v.mu.places)
		}
		known = places{t.Partitions, sync.OnceValue(func() [][]int32 { return v.place(t) })}
		v.mu.places[t.ID] = known
	}
	v.mu.Unlock()
	return known.nodes()
}

// place works out the nodes of a topic's partitions.
func (v *zoneView) place(t *view.Topic) [][]int32 {
	nodes := make([][]int32, 0, 1+len(v.others))
	for _, g := range append([]group{v.own}, v.others...) {
		nodes = append(nodes, g.place(t))
	}
	if !v.home {
		v.apart(nodes)
	}
	return nodes
}

// topic gives a topic as Metadata shows it. It is one of the snapshot that the view is of.
func (v *zoneView) topic(t *view.Topic) kmsg.MetadataResponseTopic {
	a := kmsg.NewMetadataResponseTopic()
	a.Topic, a.TopicID, a.IsInternal = &t.Name, t.ID, t.Internal
	a.Partitions = make([]kmsg.MetadataResponseTopicPartition, t.Partitions)
	nodes := v.nodes(t)
	replicas := make([]int32, 0, len(nodes)*int(t.Partitions))
	for i := range a.Partitions {
		first := len(replicas)
		for _, zone := range nodes {
			if zone[i] != noReplica {
				replicas = append(replicas, zone[i])
			}
		}
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), nodes[0][i], v.epoch
		p.Replicas, p.ISR = replicas[first:], replicas[first:]
		a.Partitions[i] = p
	}
	return a
}

// replicas returns the nodes of one of a topic's partitions, the leader first.
func (v *zoneView) replicas(t *view.Topic, partition int32) (replicas []int32) {
	for _, zone := range v.nodes(t) {
		if zone[partition] != noReplica {
			replicas = append(replicas, zone[partition])
		}
	}
	return replicas
}

// place gives each partition of a topic its node among the group's agents.
func (g *group) place(t *view.Topic) []int32 {
	nodes := make([]int32, t.Partitions)
	for p, at := range assign.Places(t.ID, t.Partitions, g.agents) {
		nodes[p] = g.ports[at.Index][at.Port].node
	}
	return nodes
}
