package admin

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/metadata"
)

// clientView is the cluster as one client sees it, and the same as in Metadata (kafka.Views of agent/kafka, which has the reasons).
// The client sees the agents of its zone, or all agents if the zone has none. If every agent knows the zone, the client also sees
// the other zones' agents, and each partition has one replica per other zone. If its software takes stand-ins, so do zones that have lost their agents.
type clientView struct {
	epoch    int32 // the membership version
	home     bool  // whether the client's zone has agents
	own      placement
	others   []placement
	standIns []node // for zones without agents
}

// placement is the agents that share a topic's partitions, in the order of sessions.
type placement struct {
	zone   string // "" if of all zones
	agents []assign.Agent
	nodes  [][]node // by agent
}

// node is one address of an agent, a broker as clients see it.
type node struct {
	id   int32
	host string
	port int32
	zone string
}

func (p *placement) add(info metadata.SessionInfo, nodes []node) {
	p.agents = append(p.agents, assign.Agent{ID: uint32(info.ID), Ports: int32(len(nodes))})
	p.nodes = append(p.nodes, nodes)
}

// viewOf returns the view of the client that sent a request.
func viewOf(s *metadata.State, f *api.Forward) clientView {
	zones := map[string]*placement{}
	all := &placement{}
	var names []string
	for info := range s.Sessions() {
		nodes := nodesOf(info, f.Listener)
		if !info.Shown() || len(nodes) == 0 {
			continue
		}
		if zones[info.Zone] == nil {
			zones[info.Zone] = &placement{zone: info.Zone}
			names = append(names, info.Zone)
		}
		zones[info.Zone].add(info, nodes)
		all.add(info, nodes)
	}
	slices.Sort(names)
	v := clientView{epoch: int32(min(s.MembershipVersion(), math.MaxInt32)), own: *all}
	if own := zones[f.Zone]; own != nil {
		v.home, v.own = true, *own
	}
	others, standIns := shows(f)
	if others {
		for _, name := range names {
			if name != f.Zone {
				v.others = append(v.others, *zones[name])
			}
		}
	}
	if standIns {
		v.standIn(s, f.Listener)
	}
	return v
}

// shows reports whether Metadata shows a client other zones' agents, and whether it shows stand-ins for zones without agents.
func shows(f *api.Forward) (others, standIns bool) {
	if f.ZoneKnown != nil {
		return *f.ZoneKnown, *f.ZoneKnown && f.StandIns
	}
	named := f.Zone != "" && strings.Contains(f.ClientId, "="+f.Zone) // an older agent
	return named, named
}

// standIn adds the nodes that stand for zones without agents.
func (v *clientView) standIn(s *metadata.State, listener string) {
	if len(v.own.agents) == 0 {
		return
	}
	for i, info := range emptiedZones(s) {
		if info.Zone == "" || len(nodesOf(info, listener)) == 0 {
			continue
		}
		last := v.own.nodes[len(v.own.nodes)-1]
		at := last[len(last)-1]
		at.id, at.zone = assign.FirstStandIn-int32(i), info.Zone
		v.standIns = append(v.standIns, at)
	}
}

// emptiedZones returns the last session of each zone without agents, in the order of the zones' names.
func emptiedZones(s *metadata.State) []metadata.SessionInfo {
	return slices.SortedFunc(s.EmptiedZones(), func(a, b metadata.SessionInfo) int { return cmp.Compare(a.Zone, b.Zone) })
}

// nodesOf returns the nodes of an agent at one listener.
func nodesOf(info metadata.SessionInfo, listener string) []node {
	var nodes []node
	for i, e := range info.Endpoints {
		if e.Listener == listener && i < len(info.NodeIDs) {
			nodes = append(nodes, node{id: info.NodeIDs[i], host: e.Host, port: e.Port, zone: info.Zone})
		}
	}
	return nodes
}

// brokers returns every node of the view.
func (v *clientView) brokers() []node {
	var all []node
	shown := []placement{v.own}
	if v.home {
		shown = append(shown, v.others...) // else they are among the own ones
	}
	for _, p := range shown {
		for _, nodes := range p.nodes {
			all = append(all, nodes...)
		}
	}
	return append(all, v.standIns...)
}

// replicas returns the nodes of each partition, the leader first. They are empty if there are no agents.
func (v *clientView) replicas(t *metadata.Topic) [][]int32 {
	replicas := make([][]int32, t.Partitions)
	leaders := make([]string, t.Partitions) // their zones
	for i, at := range assign.Places(t.ID, t.Partitions, v.own.agents) {
		leader := v.own.nodes[at.Index][at.Port]
		replicas[i], leaders[i] = append(replicas[i], leader.id), leader.zone
	}
	for _, p := range v.others {
		for i, at := range assign.Places(t.ID, t.Partitions, p.agents) {
			if leaders[i] != p.zone {
				replicas[i] = append(replicas[i], p.nodes[at.Index][at.Port].id)
			}
		}
	}
	for i := range replicas {
		for _, n := range v.standIns {
			replicas[i] = append(replicas[i], n.id)
		}
	}
	return replicas
}

// factor returns the number of replicas of each partition.
func (v *clientView) factor() int {
	if len(v.own.agents) == 0 {
		return 0
	}
	factor := len(v.others) + len(v.standIns)
	if v.home || len(v.others) == 0 {
		factor++ // the leader is in none of the others' zones
	}
	return factor
}

// memberOf returns the agent that a node id belongs to.
func memberOf(s *metadata.State, node int32) (metadata.SessionInfo, bool) {
	for info := range s.Sessions() {
		if !info.Closed && slices.Contains(info.NodeIDs, node) {
			return info, true
		}
	}
	return metadata.SessionInfo{}, false
}

// zoneOf returns the zone of a node that clients may be shown. It is an agent's node, or one that stands for a zone without agents.
func zoneOf(s *metadata.State, node int32) (zone string, ok bool) {
	if member, ok := memberOf(s, node); ok {
		return member.Zone, true
	}
	gone := emptiedZones(s)
	if i := int(assign.FirstStandIn - node); i >= 0 && i < len(gone) {
		return gone[i].Zone, true
	}
	return "", false
}
