package kafka

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestViews_ZonesWithoutAgentsShareAView: clients name any number of zones that do not exist. They all get one view, and the
// views of zones with agents stay.
func TestViews_ZonesWithoutAgentsShareAView(t *testing.T) {
	c := catalogueOf(t)
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: &api.Membership{
		Version: 8, Members: []*api.Member{member(1, "a"), member(2, "b")}, Gone: []*api.Member{member(3, "c")},
	}})
	views := NewViews(zonesOf(t, "a"))
	of := func(clientID string) *zoneView {
		return views.of(c.Load(), &edge.Request{ClientID: clientID, Client: &edge.Client{Listener: "main"}})
	}
	kept := map[string]*zoneView{}
	for _, zone := range []string{"a", "b"} {
		kept[zone] = of("zone=" + zone)
		require.True(t, kept[zone].nodes.Home)
	}
	unknown := of("zone=c")
	require.False(t, unknown.nodes.Home)
	require.Len(t, unknown.nodes.Own.Agents, 2, "all agents")
	for i := range 2 * maxViews {
		require.Same(t, unknown, of(fmt.Sprintf("zone=made-up-%d", i)))
	}
	for zone, v := range kept {
		require.Same(t, v, of("zone="+zone))
	}
	require.Len(t, views.mu.current.views, 3)
}

// TestViews_NoAgentAtTheListener: a zone whose agents do not have the client's listener is one without agents there.
func TestViews_NoAgentAtTheListener(t *testing.T) {
	c := catalogueOf(t)
	elsewhere := member(1, "a")
	for _, e := range elsewhere.Endpoints {
		e.Listener = "other"
	}
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: &api.Membership{
		Version: 8, Members: []*api.Member{elsewhere, member(2, "b")},
	}})
	views := NewViews(zonesOf(t, "a"))
	v := views.of(c.Load(), &edge.Request{ClientID: "zone=a", Client: &edge.Client{Listener: "main"}})
	require.False(t, v.nodes.Home)
	require.Len(t, v.nodes.Own.Agents, 1)
	require.Same(t, v, views.of(c.Load(), &edge.Request{ClientID: "zone=x", Client: &edge.Client{Listener: "main"}}))
	v = views.of(c.Load(), &edge.Request{ClientID: "zone=a", Client: &edge.Client{Listener: "other"}})
	require.True(t, v.nodes.Home)
}

// TestViews_BoundsTheirNodes: a view keeps topics up to maxViewNodes nodes together, and at least one topic.
func TestViews_BoundsTheirNodes(t *testing.T) {
	c := catalogueOf(t)
	v := NewViews(zonesOf(t, "a")).of(c.Load(), &edge.Request{Client: &edge.Client{Listener: "main"}})
	for i, kept := range []int{1, 2, 1, 1} {
		topic := &view.Topic{ID: id.Topic{byte(i)}, Partitions: 1, ReplicationFactor: maxViewNodes / 2}
		if i == 3 {
			topic.ReplicationFactor = 2 * maxViewNodes
		}
		require.NotEmpty(t, v.replicas(topic).Of(0))
		require.Len(t, v.mu.placed, kept, "topic %d", i)
	}
}

// TestViews_OldSnapshot: a request that looked before the membership changed gets the old view, and the newest one stays current.
func TestViews_OldSnapshot(t *testing.T) {
	c := catalogueOf(t)
	views, old := NewViews(zonesOf(t, "a")), c.Load()
	from := &edge.Request{Client: &edge.Client{Listener: "main"}}
	before := views.of(old, from)
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: &api.Membership{Version: 8, Members: []*api.Member{member(3, "a")}}})
	current := views.of(c.Load(), from)
	require.NotEqual(t, before.brokers, current.brokers)
	require.Equal(t, before.brokers, views.of(old, from).brokers)
	require.Same(t, current, views.of(c.Load(), from))
}
