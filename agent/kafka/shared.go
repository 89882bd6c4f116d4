package kafka

import (
	"maps"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/internal/assign"
)

// SharedListener is a listener whose clients reach the agents of each zone through one load balancer. Metadata shows one node per
// zone and port, at the load balancer's address. All agents show the same ids, since any agent takes any partition. If agents
// behind a load balancer change, leaders stay and leader epochs rise.
type SharedListener struct {
	// Zones are the load balancers' addresses by zone, one per port. They are the same on all agents.
	Zones map[string][]view.Endpoint
	// Ports are the indexes of the agent's ports (edge.Client.PortIndex) that the listener has, in the order of the addresses.
	Ports []int
}

// SharedListeners are an agent's shared listeners by name.
type SharedListeners map[string]SharedListener

// sharedListener is a SharedListener with node ids.
type sharedListener struct {
	zones map[string]assign.Group // each has one agent, which stands for all behind the load balancer
	ports []int
}

// Share makes listeners shared. It is called before the first request.
func (v *Views) Share(listeners SharedListeners) {
	v.shared = make(map[string]*sharedListener, len(listeners))
	for name, l := range listeners {
		v.shared[name] = newSharedListener(l)
	}
}

// newSharedListener assigns node ids by a hash of the zone's name, so that they stay when a zone is added: agents with the old list
// and agents with the new one agree. If two of the assign.SharedZones slots collide, the zone that sorts later takes the next
// free one, so adding a zone can move its ids. Ids repeat across listeners; a client sees one listener.
func newSharedListener(l SharedListener) *sharedListener {
	shared := &sharedListener{zones: make(map[string]assign.Group, len(l.Zones)), ports: l.Ports}
	taken := make(map[uint64]bool, len(l.Zones))
	for _, zone := range slices.Sorted(maps.Keys(l.Zones)) {
		slot := xxhash.Sum64String(zone) % assign.SharedZones
		for taken[slot] {
			slot = (slot + 1) % assign.SharedZones
		}
		taken[slot] = true
		first := int32(assign.FirstShared + slot*assign.SharedPorts)
		nodes := make([]assign.Node, len(l.Zones[zone]))
		for i, at := range l.Zones[zone] {
			nodes[i] = assign.Node{ID: first + int32(i), Host: at.Host, Port: at.Port, Zone: zone}
		}
		g := assign.Group{Zone: zone}
		g.Add(uint32(first), nodes)
		shared.zones[zone] = g
	}
	return shared
}

// isShared reports whether a request came by a shared listener.
func (v *Views) isShared(req *edge.Request) bool {
	return v != nil && v.shared[req.Client.Listener] != nil
}

// sharedNode returns the id of the node that the client of a shared listener connected to: the one of this agent's zone and of
// the port. It returns assign.NoNode if there is none.
func (v *Views) sharedNode(req *edge.Request) int32 {
	l := v.shared[req.Client.Listener]
	i := slices.Index(l.ports, req.Client.PortIndex)
	g, ok := l.zones[v.zones.own]
	if !ok || i < 0 || i >= len(g.Nodes[0]) {
		return assign.NoNode
	}
	return g.Nodes[0][i].ID
}

// HasSibling reports whether another agent of this zone serves a shared listener, so that a client that reconnects to the load balancer
// reaches an agent. It returns false if the listener is not shared.
func (v *Views) HasSibling(s *view.Snapshot, listener string) bool {
	if v == nil || v.shared[listener] == nil {
		return false
	}
	for _, m := range s.Members {
		if m.Session != s.Session && m.Zone == v.zones.own && len(nodesOf(m, listener)) > 0 {
			return true
		}
	}
	return false
}

// isOwnNode reports whether a node of a shared listener stands for the agents of this agent's zone.
func (v *Views) isOwnNode(listener string, node int32) bool {
	l := v.shared[listener]
	if l == nil {
		return false
	}
	g, ok := l.zones[v.zones.own]
	return ok && slices.ContainsFunc(g.Nodes[0], func(n assign.Node) bool { return n.ID == node })
}
