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
type clientView struct {
	epoch int32 // the membership version
	nodes assign.View
	shown int // number of nodes
}

// viewOf returns the view of the client that sent a request.
func viewOf(s *metadata.State, f *api.Forward) clientView {
	zones := map[string]*assign.Group{}
	all := &assign.Group{}
	var names []string
	for info := range s.Sessions() {
		nodes := nodesOf(info, f.Listener)
		if !info.Shown() || len(nodes) == 0 {
			continue
		}
		if zones[info.Zone] == nil {
			zones[info.Zone] = &assign.Group{Zone: info.Zone}
			names = append(names, info.Zone)
		}
		zones[info.Zone].Add(uint32(info.ID), nodes)
		all.Add(uint32(info.ID), nodes)
	}
	slices.Sort(names)
	v := clientView{epoch: int32(min(s.MembershipVersion(), math.MaxInt32))}
	v.nodes.Own = *all
	if own := zones[f.Zone]; own != nil {
		v.nodes.Home, v.nodes.Own = true, *own
	}
	others, standIns := shows(f)
	if others {
		for _, name := range names {
			if name != f.Zone {
				v.nodes.Others = append(v.nodes.Others, *zones[name])
			}
		}
	}
	if standIns {
		v.standIn(s, f.Listener)
	}
	v.shown = len(v.nodes.Shown())
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
	own := &v.nodes.Own
	if len(own.Agents) == 0 {
		return
	}
	for i, info := range emptiedZones(s) {
		if info.Zone == "" || len(nodesOf(info, listener)) == 0 {
			continue
		}
		last := own.Nodes[len(own.Nodes)-1]
		at := last[len(last)-1]
		at.ID, at.Zone = assign.FirstStandIn-int32(i), info.Zone
		g := assign.Group{Zone: info.Zone}
		g.Add(uint32(info.ID), []assign.Node{at})
		v.nodes.StandIns = append(v.nodes.StandIns, g)
	}
}

// emptiedZones returns the last session of each zone without agents, in the order of the zones' names.
func emptiedZones(s *metadata.State) []metadata.SessionInfo {
	return slices.SortedFunc(s.EmptiedZones(), func(a, b metadata.SessionInfo) int { return cmp.Compare(a.Zone, b.Zone) })
}

// nodesOf returns the nodes of an agent at one listener.
func nodesOf(info metadata.SessionInfo, listener string) []assign.Node {
	var nodes []assign.Node
	for i, e := range info.Endpoints {
		if e.Listener == listener && i < len(info.NodeIDs) {
			nodes = append(nodes, assign.Node{ID: info.NodeIDs[i], Host: e.Host, Port: e.Port, Zone: info.Zone})
		}
	}
	return nodes
}

// brokers returns every node of the view.
func (v *clientView) brokers() []assign.Node { return v.nodes.Shown() }

// replicas returns the nodes of each partition, the leader first. There are none without agents.
func (v *clientView) replicas(t *metadata.Topic) assign.Replicas {
	return v.nodes.Replicas(t.ID, t.Partitions, int(t.ReplicationFactor))
}

// shownReplicas returns the number of replicas that DescribeTopicPartitions shows of each partition of a topic.
func (v *clientView) shownReplicas(t *metadata.Topic) int {
	return min(int(t.ReplicationFactor), v.shown)
}

// nodesAt returns the number of nodes of the whole cluster at one listener.
func nodesAt(s *metadata.State, listener string) (n int) {
	for info := range s.Sessions() {
		if info.Shown() {
			n += len(nodesOf(info, listener))
		}
	}
	return n
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
