package kafka

import (
	"slices"

	"github.com/freshet-io/freshet/agent/view"
)

// membership is the agents there were at a time, and the views of them that were asked for.
type membership struct {
	version uint64
	members []*view.Member     // that are shown
	gone    []*view.Member     // as in the snapshot: zones are forgotten without a new version
	reached map[reach]struct{} // zones whose agents clients reach, by listener
	views   map[viewKey]*zoneView
}

// reach is a zone and a listener by which clients reach an agent of it.
type reach struct{ zone, listener string }

func newMembership(s *view.Snapshot) *membership {
	m := &membership{
		version: s.Version, members: s.Shown(), gone: s.Gone,
		reached: make(map[reach]struct{}), views: make(map[viewKey]*zoneView),
	}
	for _, member := range m.members {
		for i := range min(len(member.Endpoints), len(member.NodeIDs)) {
			m.reached[reach{member.Zone, member.Endpoints[i].Listener}] = struct{}{}
		}
	}
	return m
}

// meet gives a snapshot's membership, which is the current one from now on, unless a newer one is. The caller holds mu.
func (v *Views) meet(s *view.Snapshot) *membership {
	current := v.mu.current
	switch {
	case current != nil && current.is(s):
		return current
	case current != nil && s.Version < current.version: // of a request that began before
		return newMembership(s)
	}
	v.mu.current = newMembership(s)
	return v.mu.current
}

// is tells whether a snapshot has this membership.
func (m *membership) is(s *view.Snapshot) bool {
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
