package kafka

import (
	"slices"
	"time"

	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/metadata/id"
)

// membership is the agents there were at a time, and the views of them that were asked for.
type membership struct {
	version uint64
	session id.Session         // this agent's
	members []*view.Member     // that are shown
	gone    []*view.Member     // as in the snapshot: zones are forgotten without a new version
	reached map[reach]struct{} // zones whose agents clients reach, by listener
	views   map[viewKey]*zoneView
	parts   *metadataParts // of these views
	ended   time.Time      // when the next one was met here
}

// reach is a zone and a listener by which clients reach an agent of it.
type reach struct{ zone, listener string }

func (v *Views) newMembership(s *view.Snapshot) *membership {
	m := &membership{
		version: s.Version, session: s.Session, members: s.Shown(), gone: s.Gone,
		reached: make(map[reach]struct{}), views: make(map[viewKey]*zoneView), parts: newMetadataParts(v.m),
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
		past := v.newMembership(s)
		past.parts.retire()
		return past
	case current != nil:
		v.retire(current, s)
	}
	v.mu.current = v.newMembership(s)
	return v.mu.current
}

// is tells whether a snapshot has this membership.
func (m *membership) is(s *view.Snapshot) bool {
	return m.version == s.Version && m.session == s.Session && slices.Equal(m.members, s.Shown()) && slices.Equal(m.gone, s.Gone)
}

// retire ends a membership because of a snapshot. It is kept for as long as producers are sent on from it, if another one follows and
// not the same, told anew. The caller holds mu.
func (v *Views) retire(m *membership, next *view.Snapshot) {
	m.parts.retire()
	v.forget()
	if next.Version != m.version && len(v.mu.past) < maxPast {
		m.ended = time.Now()
		v.mu.past = append(v.mu.past, m)
	}
}

// forget drops the memberships that nobody is sent on from any more. The caller holds mu.
func (v *Views) forget() {
	now := time.Now()
	v.mu.past = slices.DeleteFunc(v.mu.past, func(m *membership) bool { return now.Sub(m.ended) > sendOnFor })
	if len(v.mu.past) == 0 {
		v.mu.sentOn = nil
	}
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
			m.parts.clear()
		}
		v = newZoneView(m, key)
		m.views[key] = v
	}
	return v
}

// nodes gives the ids of this agent's nodes, as far as it is shown. The slice may be appended to.
func (m *membership) nodes() []int32 {
	for _, member := range m.members {
		if member.Session == m.session {
			return slices.Clone(member.NodeIDs)
		}
	}
	return nil
}
