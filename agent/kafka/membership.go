package kafka

import (
	"container/list"
	"maps"
	"slices"

	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/internal/assign"
)

// membership is the agents there were at a time, and the views of them that were asked for.
type membership struct {
	version uint64
	members []*view.Member     // that are shown
	gone    []*view.Member     // as in the snapshot: zones are forgotten without a new version
	reached map[reach]struct{} // zones whose agents clients reach, by listener
	shared  map[string]*sharedListener
	views   map[viewKey]*zoneView
	built   uint64 // number of views built
	placed  placements
}

// reach is a zone and a listener by which clients reach an agent of it.
type reach struct{ zone, listener string }

func (v *Views) newMembership(s *view.Snapshot) *membership {
	m := &membership{
		version: s.Version, members: s.Shown(), gone: s.Gone, shared: v.shared,
		reached: make(map[reach]struct{}), views: make(map[viewKey]*zoneView), placed: placements{kept: make(map[placementKey]*list.Element)},
	}
	for _, member := range m.members {
		for i := range min(len(member.Endpoints), len(member.NodeIDs)) {
			m.reach(member.Zone, member.Endpoints[i].Listener)
		}
	}
	m.reachOwn(v.zones.own)
	return m
}

// reach records that a listener reaches agents of a zone. A shared listener must have an address for the zone.
func (m *membership) reach(zone, listener string) {
	if l := m.shared[listener]; l != nil {
		if _, ok := l.zones[zone]; !ok {
			return
		}
	}
	m.reached[reach{zone, listener}] = struct{}{}
}

// reachOwn adds this agent's zone to a shared listener that reaches no zone, so that Metadata is never empty. That happens if the
// last agent with the listener drains, or all other agents are in zones without an address.
func (m *membership) reachOwn(own string) {
	for name, l := range m.shared {
		known := func(zone string) bool { _, ok := m.reached[reach{zone, name}]; return ok }
		if len(m.members) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(l.zones)), known) {
			m.reach(own, name)
		}
	}
}

// groups returns the agents that a listener reaches, by zone and together.
func (m *membership) groups(listener string) (zones map[string]*assign.Group, all *assign.Group) {
	zones, all = make(map[string]*assign.Group), &assign.Group{}
	if l := m.shared[listener]; l != nil {
		for _, zone := range slices.Sorted(maps.Keys(l.zones)) {
			if _, ok := m.reached[reach{zone, listener}]; ok {
				g := l.zones[zone]
				zones[zone] = &g
				all.Add(g.Agents[0].ID, g.Nodes[0])
			}
		}
		return zones, all
	}
	for _, member := range m.members {
		nodes := nodesOf(member, listener)
		if len(nodes) == 0 {
			continue
		}
		if zones[member.Zone] == nil {
			zones[member.Zone] = &assign.Group{Zone: member.Zone}
		}
		zones[member.Zone].Add(uint32(member.Session), nodes)
		all.Add(uint32(member.Session), nodes)
	}
	return zones, all
}

// membershipOf returns the membership of a snapshot and makes it current, unless the current one is newer. The caller holds mu.
func (v *Views) membershipOf(s *view.Snapshot) *membership {
	current := v.mu.current
	switch {
	case current != nil && current.matches(s):
		return current
	case current != nil && s.Version < current.version: // the request began before the current membership, which stays
		return v.newMembership(s)
	}
	v.mu.current = v.newMembership(s)
	return v.mu.current
}

// matches reports whether a snapshot has this membership.
func (m *membership) matches(s *view.Snapshot) bool {
	return m.version == s.Version && slices.Equal(m.members, s.Shown()) && slices.Equal(m.gone, s.Gone)
}

// view returns one view of the membership. Clients name their zones themselves: all zones without an agent have the same
// view, so that clients cannot make the agent keep more views than there are zones. The caller holds Views.mu.
func (m *membership) view(key viewKey) *zoneView {
	if _, ok := m.reached[reach{key.zone, key.listener}]; !ok {
		key.zone, key.anyZone = "", true
	}
	v := m.views[key]
	if v == nil {
		if len(m.views) >= maxViews {
			clear(m.views)
		}
		v = newZoneView(m, key)
		m.views[key] = v
	}
	return v
}
