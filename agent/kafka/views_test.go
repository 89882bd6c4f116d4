package kafka

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestViews_ZonesWithoutAgentsShareAView has clients name 512 zones that do not exist. These clients get one view, and the views of zones
// with agents stay.
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

// TestViews_AreBounded asks for the views of as many zones with agents as are kept, and of one zone more.
func TestViews_AreBounded(t *testing.T) {
	c := catalogueOf(t)
	membership := &api.Membership{Version: 8}
	for i := range uint32(maxViews + 1) {
		membership.Members = append(membership.Members, member(i+1, strconv.Itoa(int(i))))
	}
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: membership})
	views := NewViews(zonesOf(t, "a"))
	of := func(zone int) *zoneView {
		return views.of(c.Load(), &edge.Request{ClientID: "zone=" + strconv.Itoa(zone), Client: &edge.Client{Listener: "main"}})
	}
	first := of(0)
	for zone := range maxViews {
		require.True(t, of(zone).nodes.Home)
	}
	require.Same(t, first, of(0))
	require.Len(t, views.mu.current.views, maxViews)
	last := of(maxViews)
	require.LessOrEqual(t, len(views.mu.current.views), maxViews)
	require.Same(t, last, of(maxViews))
	require.Equal(t, first.nodes, of(0).nodes, "built anew")
}

// TestViews_NoAgentAtTheListener shows that a zone has no agents for a client if none of them has the client's listener.
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

// TestViews_ShareABoundOfMemory shows the views of four zones with 75,000 topics each. Their placements take no more memory than maxViewBytes.
func TestViews_ShareABoundOfMemory(t *testing.T) {
	c := catalogueOf(t)
	zones := []string{"a", "b", "c", "d"}
	membership := &api.Membership{Version: 8}
	for i, zone := range zones {
		membership.Members = append(membership.Members, member(uint32(i+1), zone))
	}
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: membership})
	views := NewViews(zonesOf(t, "a"))
	before := heap()
	for _, zone := range zones {
		v := views.of(c.Load(), &edge.Request{ClientID: "zone=" + zone, Client: &edge.Client{Listener: "main"}})
		require.True(t, v.nodes.Home)
		for i := range uint32(75_000) {
			topic := &view.Topic{ID: id.Topic(binary.BigEndian.AppendUint32(make([]byte, 12), i)), Partitions: 1, ReplicationFactor: 3}
			require.Len(t, v.replicas(topic).Of(0), len(zones))
		}
	}
	kept := heap() - before
	t.Logf("placements of 300,000 topics take %d KiB", kept>>10)
	require.Less(t, kept, int64(maxViewBytes))
	runtime.KeepAlive(views)
}

// TestPlacements_EvictTheLeastRecentlyUsed fills the bound exactly, exceeds it by one topic, and adds a topic that is larger than the bound.
func TestPlacements_EvictTheLeastRecentlyUsed(t *testing.T) {
	c := catalogueOf(t)
	views := NewViews(zonesOf(t, "a"))
	of := func(zone string) *zoneView {
		return views.of(c.Load(), &edge.Request{ClientID: "zone=" + zone, Client: &edge.Client{Listener: "main"}})
	}
	a, b := of("a"), of("b")
	use := func(v *zoneView, n byte, bytes int) {
		t.Helper()
		topic := &view.Topic{ID: id.Topic{n}, Partitions: 1, ReplicationFactor: (bytes - placementBytes) / 4}
		require.NotEmpty(t, v.replicas(topic).Of(0))
	}
	kept := func() (topics []byte) {
		placed := &views.mu.current.placed
		bytes := 0
		for e := placed.used.Front(); e != nil; e = e.Next() {
			p := e.Value.(*placement)
			require.Same(t, e, placed.kept[p.key])
			topics, bytes = append(topics, p.key.topic[0]), bytes+p.bytes
		}
		require.Len(t, placed.kept, len(topics))
		require.Equal(t, bytes, placed.bytes)
		return topics
	}
	const quarter = maxViewBytes / 4
	use(a, 1, quarter)
	use(a, 2, quarter)
	use(b, 3, quarter)
	use(b, 4, quarter)
	require.Equal(t, []byte{1, 2, 3, 4}, kept(), "at the bound")
	use(a, 1, quarter)
	use(b, 5, placementBytes+4)
	require.Equal(t, []byte{3, 4, 1, 5}, kept(), "above the bound, over all views")
	use(b, 1, quarter)
	require.Equal(t, []byte{4, 1, 5, 1}, kept(), "each view has a placement of its own")
	use(a, 6, 2*maxViewBytes)
	require.Equal(t, []byte{6}, kept(), "one topic alone")
	use(a, 7, quarter)
	require.Equal(t, []byte{7}, kept())
}

// heap returns the bytes of live objects.
func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestViews_OldSnapshot shows that a request with a snapshot from before a change of the membership gets the old view. The newest one
// stays current.
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
