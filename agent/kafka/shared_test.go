package kafka

import (
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/assign"
)

// sharedViews are the views of an agent in a zone whose listener "main" is shared over zones, with two ports each.
func sharedViews(t *testing.T, own string, zones ...string) *Views {
	t.Helper()
	v := NewViews(zonesOf(t, own))
	l := SharedListener{Zones: make(map[string][]view.Endpoint), Ports: []int{0, 1}}
	for _, zone := range zones {
		for port := range int32(2) {
			l.Zones[zone] = append(l.Zones[zone], view.Endpoint{Listener: "main", Host: "lb-" + zone, Port: 30000 + port})
		}
	}
	v.Share(SharedListeners{"main": l})
	return v
}

// membersIn is a membership with one agent in each zone named.
func membersIn(version uint64, zones ...string) *api.Membership {
	m := &api.Membership{Version: version}
	for i, zone := range zones {
		m.Members = append(m.Members, member(uint32(version)*10+uint32(i), zone))
	}
	return m
}

// sharedMetadata asks an agent in a zone, by its shared listener.
func sharedMetadata(t *testing.T, c *view.Catalogue, views *Views, clientID string) *kmsg.MetadataResponse {
	t.Helper()
	m := NewMetadata(MetadataConfig{Catalogue: c, Views: views, Prober: never(t)})
	return call[*kmsg.MetadataResponse](t, m, 12, metadataRequest("alpha"), clientID)
}

func addressesOf(out *kmsg.MetadataResponse) (addresses []string) {
	for _, b := range out.Brokers {
		addresses = append(addresses, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	}
	return addresses
}

// TestViews_Shared: a node per zone and port, the same from all agents and whichever agents there are.
func TestViews_Shared(t *testing.T) {
	c := catalogueOf(t)
	first := map[string]int32{}
	for _, own := range []string{"a", "b"} {
		first[own] = sharedMetadata(t, c, sharedViews(t, own, "a", "b", "c"), "").Brokers[0].NodeID
	}
	for i, membership := range []*api.Membership{
		membersIn(20, "a", "a", "b", "b"), membersIn(21, "a", "b"), membersIn(22, "b", "a", "a"),
	} {
		c.OnCatalogue(&api.Catalogue{Index: uint64(10 + i), Membership: membership})
		for _, own := range []string{"a", "b"} {
			views := sharedViews(t, own, "a", "b", "c")
			out := sharedMetadata(t, c, views, "")
			require.Equal(t, []string{"lb-" + own + ":30000", "lb-" + own + ":30001"}, addressesOf(out), "the load balancer that was reached")
			require.Equal(t, own, *out.Brokers[0].Rack)
			require.Equal(t, []int32{first[own], first[own] + 1}, nodes(out))
			require.Equal(t, first[own], out.ControllerID)
			leaders := map[int32]int{}
			for _, p := range out.Topics[0].Partitions {
				leaders[p.Leader]++
				require.Equal(t, []int32{p.Leader}, p.Replicas)
			}
			require.Equal(t, map[int32]int{first[own]: 6, first[own] + 1: 6}, leaders, "ports alike")

			named := sharedMetadata(t, c, views, "zone=b")
			require.Equal(t, []string{"lb-b:30000", "lb-b:30001", "lb-a:30000", "lb-a:30001"}, addressesOf(named))
			for _, p := range named.Topics[0].Partitions {
				require.Len(t, p.Replicas, 2)
				require.Equal(t, p.Leader, p.Replicas[0])
				require.EqualValues(t, first["b"], p.Leader&^1)
				require.EqualValues(t, first["a"], p.Replicas[1]&^1)
			}
		}
	}
}

// TestViews_SharedZoneWithoutAgents: nodes of other zones lead for clients of a zone without agents. Clients that take stand-ins see its rack.
func TestViews_SharedZoneWithoutAgents(t *testing.T) {
	c := catalogueOf(t)
	gone := member(4, "b")
	gone.NodeIds = nil
	membership := membersIn(20, "a", "c")
	membership.Gone = []*api.Member{gone}
	c.OnCatalogue(&api.Catalogue{Index: 10, Membership: membership})
	for _, own := range []string{"a", "c"} {
		out := sharedMetadata(t, c, sharedViews(t, own, "a", "b", "c"), "zone=b")
		leaders := map[int32]int{}
		for _, p := range out.Topics[0].Partitions {
			leaders[p.Leader]++
		}
		require.Len(t, leaders, 4, "nodes of both zones that have agents")
		require.Equal(t, []string{"lb-a:30000", "lb-a:30001", "lb-c:30000", "lb-c:30001", "lb-c:30001"}, addressesOf(out))
		require.Equal(t, "b", *out.Brokers[4].Rack, "the stand-in")
		for _, racks := range racksOf(t, out) {
			require.Equal(t, []string{"a", "b", "c"}, racks)
		}
	}
}

// TestViews_SharedListenerOfAZone: a client without a zone in its client ID has the zone of the listener at every agent. It also sees other
// zones' nodes, which lead while the zone has no agent.
func TestViews_SharedListenerOfAZone(t *testing.T) {
	c := catalogueOf(t)
	all := []string{"lb-a:30000", "lb-a:30001", "lb-b:30000", "lb-b:30001"}
	leaders := func(membership *api.Membership) []string {
		t.Helper()
		c.OnCatalogue(&api.Catalogue{Index: membership.Version, Membership: membership})
		var led []string
		for _, own := range []string{"a", "b"} {
			views := sharedViews(t, own, "a", "b")
			views.zones.listeners["main"] = "a"
			out := sharedMetadata(t, c, views, "")
			var hosts []string
			for _, p := range out.Topics[0].Partitions {
				hosts = append(hosts, addressesOf(out)[slices.Index(nodes(out), p.Leader)])
			}
			slices.Sort(hosts)
			hosts = slices.Compact(hosts)
			require.Contains(t, [][]string{nil, hosts}, led, "agents of both zones agree")
			led = hosts
			if len(membership.Members) == 2 {
				require.Equal(t, all, addressesOf(out))
			}
		}
		return led
	}
	require.Equal(t, all[:2], leaders(membersIn(20, "a", "b")))
	require.Equal(t, all[2:], leaders(membersIn(21, "b")))
	require.Equal(t, all[:2], leaders(membersIn(22, "a", "b")))
}

// TestViews_SharedNeverEmpty: an agent shows its own zone where no zone of the list has agents, and none before it knows any.
func TestViews_SharedNeverEmpty(t *testing.T) {
	views := sharedViews(t, "a", "a", "b")
	c := catalogueOf(t)
	c.OnCatalogue(&api.Catalogue{Index: 10, Membership: membersIn(20, "x", "y")})
	for _, clientID := range []string{"", "zone=a", "zone=b", "zone=x"} {
		out := sharedMetadata(t, c, views, clientID)
		require.Equal(t, []string{"lb-a:30000", "lb-a:30001"}, addressesOf(out), clientID)
		require.Contains(t, nodes(out), out.Topics[0].Partitions[0].Leader)
	}
	require.Empty(t, views.of(view.NewCatalogue().Load(), &edge.Request{Client: &edge.Client{Listener: "main"}}).brokers)

	c.OnCatalogue(&api.Catalogue{Index: 11, Membership: membersIn(21, "b", "x")})
	require.Equal(t, []string{"lb-b:30000", "lb-b:30001"}, addressesOf(sharedMetadata(t, c, views, "")), "zone a has no agent that is shown")
	c.OnCatalogue(&api.Catalogue{Index: 12, Membership: &api.Membership{Version: 22}})
	require.Equal(t, []string{"lb-b:30000", "lb-b:30001"}, addressesOf(sharedMetadata(t, c, views, "")), "all drain")
}

// TestViews_SharedBesideOthers: clients of other listeners are shown agents.
func TestViews_SharedBesideOthers(t *testing.T) {
	views := sharedViews(t, "a", "a", "b")
	v := views.of(catalogueOf(t).Load(), &edge.Request{Client: &edge.Client{Listener: "other"}})
	require.Len(t, v.brokers, 2)
	require.EqualValues(t, 12, v.brokers[0].NodeID)
}

// TestViews_SharedEpochs: agents that come and go raise epochs, and change no leader.
func TestViews_SharedEpochs(t *testing.T) {
	c := catalogueOf(t)
	views := sharedViews(t, "a", "a", "b")
	before := sharedMetadata(t, c, views, "").Topics[0].Partitions
	c.OnCatalogue(&api.Catalogue{Index: 10, Membership: membersIn(20, "a", "b")})
	for i, p := range sharedMetadata(t, c, views, "").Topics[0].Partitions {
		require.Equal(t, before[i].Leader, p.Leader)
		require.Greater(t, p.LeaderEpoch, before[i].LeaderEpoch)
	}
}

// TestSharedListener_NodeIDs: ids are a zone's own, stay when others are added, and meet no other range of ids.
func TestSharedListener_NodeIDs(t *testing.T) {
	ids := func(zones ...string) map[string]int32 {
		l := SharedListener{Zones: make(map[string][]view.Endpoint)}
		for _, zone := range zones {
			l.Zones[zone] = make([]view.Endpoint, assign.SharedPorts)
		}
		first := make(map[string]int32)
		for zone, g := range newSharedListener(l).zones {
			first[zone] = g.Nodes[0][0].ID
		}
		return first
	}
	few, many := ids("eu-1a", "eu-1b", ""), []string{"eu-1a", "eu-1b", ""}
	for i := range 5000 { // some zones share a slot by their hash
		many = append(many, "zone-"+strconv.Itoa(i))
	}
	all := ids(many...)
	require.Equal(t, few["eu-1a"], all["eu-1a"])
	starts := slices.Sorted(maps.Values(all))
	require.Len(t, slices.Compact(slices.Clone(starts)), len(many))
	for _, n := range starts {
		require.GreaterOrEqual(t, n, int32(assign.FirstShared))
		require.Less(t, n+assign.SharedPorts, int32(assign.FirstStandIn-1000))
		require.Greater(t, math.MaxInt32-(n+assign.SharedPorts), int32(assign.FirstStandIn))
	}
}
