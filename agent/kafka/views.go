package kafka

import (
	"container/list"
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
	// maxViewBytes bounds the memory of the placements that all views of a membership keep. One topic alone may take more.
	maxViewBytes = 64 << 20
	// placementBytes is the memory of a kept placement, without its nodes.
	placementBytes = 400
)

// Views are the cluster as clients of a zone see it by a listener: the agents, and the nodes of each partition. A view is a pure
// function of the membership, so all agents show the same.
//
// A client sees the agents of its zone, or all agents if the zone has none. If the zone is the same at every agent, the client also
// sees one replica per other zone, to distinguish racks and to keep brokers when its zone loses all agents. A client whose
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

// of returns the view of a snapshot for a request's client.
func (v *Views) of(s *view.Snapshot, req *edge.Request) *zoneView {
	key := v.key(s, req)
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.membershipOf(s).view(key)
}

// key returns the key of the view for a request's client.
func (v *Views) key(s *view.Snapshot, req *edge.Request) viewKey {
	zone, named := v.zones.Of(req)
	return viewKey{
		zone: zone, named: named, listener: req.Client.Listener,
		standIns: named && len(s.Gone) > 0 && takesStandIns(req.Client.Software()),
	}
}

// zoneView is one membership as the clients of a zone see it by one listener. Its nodes never change.
type zoneView struct {
	number  uint64 // unique in the membership
	epoch   int32  // leader epoch of all partitions
	nodes   assign.View
	brokers []kmsg.MetadataResponseBroker
	placed  *placements // of all views of the membership
}

func newZoneView(s *membership, key viewKey) *zoneView {
	zones, all := s.groups(key.listener)
	names := slices.Sorted(maps.Keys(zones))
	s.built++
	v := &zoneView{number: s.built, epoch: view.LeaderEpoch(s.version), placed: &s.placed}
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

// controller returns the ID of a node that takes admin requests, as every node does. It returns -1 without agents.
func (v *zoneView) controller() int32 {
	if len(v.brokers) == 0 {
		return -1
	}
	return v.brokers[0].NodeID
}

// replicas returns the nodes of a topic's partitions.
func (v *zoneView) replicas(t *view.Topic) assign.Replicas { return v.placed.of(v, t)() }

// placements keeps the nodes of partitions for the views of a membership, up to maxViewBytes. The least recently used topics go first.
type placements struct {
	mu    sync.Mutex
	kept  map[placementKey]*list.Element // of *placement
	used  list.List                      // the least recently used first
	bytes int
}

type placementKey struct {
	view       uint64
	topic      id.Topic
	partitions int32
	factor     int
}

type placement struct {
	key      placementKey
	bytes    int                    // upper bound of the memory
	replicas func() assign.Replicas // computed once
}

// of returns a function that returns a topic's nodes. All callers until the topic is evicted share the function, which computes the nodes once.
func (p *placements) of(v *zoneView, t *view.Topic) func() assign.Replicas {
	key := placementKey{v.number, t.ID, t.Partitions, t.ReplicationFactor}
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.kept[key]; at != nil {
		p.used.MoveToBack(at)
		return at.Value.(*placement).replicas
	}
	width := max(t.ReplicationFactor, 1+len(v.nodes.Others)+len(v.nodes.StandIns))
	added := &placement{key: key, bytes: placementBytes + 4*width*int(t.Partitions)}
	added.replicas = sync.OnceValue(func() assign.Replicas { return v.nodes.Replicas(t.ID, t.Partitions, t.ReplicationFactor) })
	p.bytes += added.bytes
	for p.bytes > maxViewBytes && p.used.Len() > 0 {
		oldest := p.used.Remove(p.used.Front()).(*placement)
		delete(p.kept, oldest.key)
		p.bytes -= oldest.bytes
	}
	p.kept[key] = p.used.PushBack(added)
	return added.replicas
}

// exactly returns the nodes of a partition, the leader first, cut off at the topic's replication factor. Admin clients compare the number
// with the factor that they set.
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
