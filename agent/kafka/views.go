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
	// maxViewNodes bounds the nodes of these topics, unless one topic alone has more: 64 MiB.
	maxViewNodes = 16 << 20
)

// Views are the cluster as clients of a zone see it by a listener: the agents, and the nodes of each partition. A view is a pure
// function of the membership, so all agents show the same.
//
// A client sees the agents of its zone, or all agents if the zone has none. If the zone is the same at every agent, the client also
// sees one replica per other zone, to tell racks apart and to have brokers left when its zone loses all agents. A client whose
// software supports it sees stand-ins for zones without agents (standIns). A client of unknown zone is in the zone of each
// agent that it reaches. It sees that zone's agents only: at another zone's agent its leaders would change. Further nodes of these
// zones fill a topic's replicas up to its replication factor (assign.View).
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

// zoneView is one membership as the clients of a zone see it by one listener. Its nodes never change.
type zoneView struct {
	epoch   int32 // leader epoch of all partitions
	nodes   assign.View
	brokers []kmsg.MetadataResponseBroker

	mu struct {
		sync.Mutex
		placed map[id.Topic]placed
		nodes  int // of these topics, at most
	}
}

// placed has the nodes of a topic's partitions.
type placed struct {
	topic    *view.Topic
	replicas func() assign.Replicas // computed once
}

func newZoneView(s *membership, key viewKey) *zoneView {
	zones, all := s.groups(key.listener)
	names := slices.Sorted(maps.Keys(zones))
	v := &zoneView{epoch: view.LeaderEpoch(s.version)}
	v.mu.placed = make(map[id.Topic]placed)
	own, found := zones[key.zone]
	if key.anyZone || !found {
		own, found = all, false
	}
	v.nodes.Home, v.nodes.Own = found, *own
	if key.named {
		for _, name := range names {
			if name != key.zone || !found {
				v.nodes.Others = append(v.nodes.Others, *zones[name])
			}
		}
	}
	if key.standIns {
		v.nodes.StandIns = v.standIns(s.gone, zones, key.listener)
	}
	v.brokers = brokersOf(v.nodes.Shown())
	return v
}

// nodesOf returns an agent's nodes at one listener.
func nodesOf(m *view.Member, listener string) []assign.Node {
	var nodes []assign.Node
	for i, e := range m.Endpoints {
		if e.Listener == listener && i < len(m.NodeIDs) {
			nodes = append(nodes, assign.Node{ID: m.NodeIDs[i], Host: e.Host, Port: e.Port, Zone: m.Zone})
		}
	}
	return nodes
}

func brokersOf(nodes []assign.Node) []kmsg.MetadataResponseBroker {
	var brokers []kmsg.MetadataResponseBroker
	for _, n := range nodes {
		b := kmsg.NewMetadataResponseBroker()
		b.NodeID, b.Host, b.Port = n.ID, n.Host, n.Port
		if n.Zone != "" {
			b.Rack = &n.Zone
		}
		brokers = append(brokers, b)
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

// replicas returns the nodes of a topic's partitions.
func (v *zoneView) replicas(t *view.Topic) assign.Replicas {
	v.mu.Lock()
	known, ok := v.mu.placed[t.ID]
	if !ok || known.topic.Partitions != t.Partitions || known.topic.ReplicationFactor != t.ReplicationFactor {
		nodes := int(t.Partitions) * max(t.ReplicationFactor, 1+len(v.nodes.Others)+len(v.nodes.StandIns))
		if len(v.mu.placed) >= maxViewTopics || v.mu.nodes+nodes > maxViewNodes {
			clear(v.mu.placed)
			v.mu.nodes = 0
		}
		v.mu.nodes += nodes
		known = placed{t, sync.OnceValue(func() assign.Replicas { return v.nodes.Replicas(t.ID, t.Partitions, t.ReplicationFactor) })}
		v.mu.placed[t.ID] = known
	}
	v.mu.Unlock()
	return known.replicas()
}

// exactly returns as many nodes of a partition as the topic's replication factor, if there are that many, the leader first. Admin clients
// compare them with the factor that they set.
func (v *zoneView) exactly(t *view.Topic, partition int32) []int32 {
	of := v.replicas(t).Of(partition)
	return of[:min(len(of), t.ReplicationFactor)]
}

// topic returns a topic as Metadata shows it. The topic is one of the snapshot that the view was made of.
func (v *zoneView) topic(t *view.Topic) kmsg.MetadataResponseTopic {
	a := kmsg.NewMetadataResponseTopic()
	a.Topic, a.TopicID, a.IsInternal = &t.Name, t.ID, t.Internal
	a.Partitions = make([]kmsg.MetadataResponseTopicPartition, t.Partitions)
	replicas := v.replicas(t)
	for i := range a.Partitions {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.LeaderEpoch = int32(i), replicas.Leader(int32(i)), v.epoch
		p.Replicas = replicas.Of(int32(i))
		p.ISR = p.Replicas
		a.Partitions[i] = p
	}
	return a
}
