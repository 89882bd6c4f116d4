package assign

import "slices"

// NoNode is the ID of the leader of a partition without nodes.
const NoNode = -1

// Node is one address of an agent, a broker as clients see it.
type Node struct {
	ID   int32
	Host string
	Port int32
	Zone string
}

// Group is the agents that share the partitions of each topic.
type Group struct {
	Zone   string   // "" if the group has agents of all zones
	Agents []Agent  // in the order of sessions
	Nodes  [][]Node // by agent, one per port
}

// Add appends an agent.
func (g *Group) Add(id uint32, nodes []Node) {
	g.Agents = append(g.Agents, Agent{ID: id, Ports: int32(len(nodes))})
	g.Nodes = append(g.Nodes, nodes)
}

// Sessions returns the IDs of the agents, for Key.
func (g *Group) Sessions() []uint32 {
	sessions := make([]uint32, len(g.Agents))
	for i, a := range g.Agents {
		sessions[i] = a.ID
	}
	return sessions
}

// Coordinator returns the node of a coordinator's key, which is the first of an agent. false means that the group has no agents. kind is
// FindCoordinator's key type.
func (g *Group) Coordinator(kind int8, key string) (Node, bool) {
	i := Key(byte(kind), key, g.Sessions())
	if i < 0 {
		return Node{}, false
	}
	return g.Nodes[i][0], true
}

// View is the cluster as a client sees it by one listener.
type View struct {
	// Home reports whether the client's zone has agents.
	Home bool
	// Own is the agents of the client's zone, or of all zones if the client's has none. They lead the partitions.
	Own Group
	// Others has a group for every other zone that the client sees. Each partition has a replica in each of these zones.
	Others []Group
	// StandIns has a group of one node for each zone that has lost its agents. That node is a replica of every partition.
	StandIns []Group
}

// Shown returns the nodes of the view, each once.
func (v *View) Shown() []Node {
	groups := []Group{v.Own}
	if v.Home {
		groups = append(groups, v.Others...) // else they are among the own ones
	}
	var nodes []Node
	for _, g := range append(groups, v.StandIns...) {
		for _, of := range g.Nodes {
			nodes = append(nodes, of...)
		}
	}
	return nodes
}

// Replicas are the nodes of a topic's partitions.
type Replicas struct {
	width int     // most nodes of a partition
	nodes []int32 // by partition, width each; NoNode fills the rest of a partition
}

// Of returns the nodes of a partition, the leader first. The slice must not be changed.
func (r Replicas) Of(partition int32) []int32 {
	if r.width == 0 {
		return nil
	}
	first := int(partition) * r.width
	of := r.nodes[first : first+r.width : first+r.width]
	if n := slices.Index(of, NoNode); n >= 0 {
		return of[:n:n]
	}
	return of
}

// Leader returns the leader of a partition, NoNode without agents.
func (r Replicas) Leader(partition int32) int32 {
	if r.width == 0 {
		return NoNode
	}
	return r.nodes[int(partition)*r.width]
}

// Replicas returns the nodes of a topic's partitions: the leader, one node in each other zone, the stand-ins, and further nodes of these
// zones up to the topic's replication factor. A view with fewer nodes in these zones shows fewer. More zones than the factor show more
// replicas. The zones of a partition do not depend on the factor: a Java consumer with client.rack rejoins its group when they change
// (ConsumerCoordinator.MetadataSnapshot, KIP-881).
func (v *View) Replicas(topic [16]byte, partitions int32, factor int) Replicas {
	if len(v.Own.Agents) == 0 || partitions <= 0 {
		return Replicas{}
	}
	leaders := Places(topic, partitions, v.Own.Agents)
	others := make([][]Place, len(v.Others))
	for i := range v.Others {
		others[i] = Places(topic, partitions, v.Others[i].Agents)
	}
	shown := v.Shown()
	r := Replicas{width: min(len(shown), max(factor, 1+len(v.Others)+len(v.StandIns)))}
	r.nodes = make([]int32, 0, int(partitions)*r.width)
	byZone := map[string][]Node{}
	for _, n := range shown {
		byZone[n.Zone] = append(byZone[n.Zone], n)
	}
	zones := make([]string, 0, r.width)
	for p, at := range leaders {
		nodes := v.Own.Nodes[at.Index]
		leader, first := &nodes[at.Port], len(r.nodes)
		r.nodes, zones = append(r.nodes, leader.ID), append(zones[:0], leader.Zone)
		for i := range v.Others {
			if g := &v.Others[i]; g.Zone != leader.Zone {
				other := others[i][p]
				r.nodes, zones = append(r.nodes, g.Nodes[other.Index][other.Port].ID), append(zones, g.Zone)
			}
		}
		for i := range v.StandIns {
			r.nodes = append(r.nodes, v.StandIns[i].Nodes[0][0].ID)
		}
		// The leader's agent first: its nodes come and go with the leader.
		for i := 1; i < len(nodes) && len(r.nodes)-first < factor; i++ {
			r.fill(first, nodes[(int(at.Port)+i)%len(nodes)].ID)
		}
		for _, zone := range zones {
			for i := 0; i < len(byZone[zone]) && len(r.nodes)-first < factor; i++ {
				r.fill(first, byZone[zone][i].ID)
			}
		}
		for len(r.nodes)-first < r.width {
			r.nodes = append(r.nodes, NoNode)
		}
	}
	return r
}

// fill appends a node to the partition that begins at first, unless the partition has the node.
func (r *Replicas) fill(first int, node int32) {
	if !slices.Contains(r.nodes[first:], node) {
		r.nodes = append(r.nodes, node)
	}
}
