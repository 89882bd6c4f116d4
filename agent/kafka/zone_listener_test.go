package kafka

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/api"
)

// portOf is the port of each zone's listener.
var portOf = map[string]int32{"a": 9192, "b": 9196, "c": 9200}

// zonedMember is an agent with one port of the default listener and one port of the listener of each zone.
func zonedMember(session uint32, zone string, listeners ...string) *api.Member {
	host := "agent-" + zone
	m := &api.Member{Session: session, Zone: zone, Endpoints: []*api.Endpoint{{Host: host, Port: 9092}}, NodeIds: []int32{int32(session) * 10}}
	for i, name := range listeners {
		m.Endpoints = append(m.Endpoints, &api.Endpoint{Listener: name, Host: host, Port: portOf[name]})
		m.NodeIds = append(m.NodeIds, int32(session)*10+int32(i)+1)
	}
	return m
}

// zonedViews are the views of an agent with a listener for each of three zones.
func zonedViews(t *testing.T, own string) *Views {
	t.Helper()
	zones, err := NewZones(own, nil, []string{"a=a", "b=b", "c=c"})
	require.NoError(t, err)
	return NewViews(zones)
}

// byListener sends a request of a client that names no zone, and decodes the answer.
func byListener[R kmsg.Response](t *testing.T, api API, listener string, version int16, in kmsg.Request) R {
	t.Helper()
	in.SetVersion(version)
	reply := api.Start(t.Context(), &edge.Request{
		Key: in.Key(), Version: version, ClientID: "billing", Body: in.AppendTo(nil), Arrived: time.Now(),
		Client: &edge.Client{ID: 5, Host: "10.0.0.1", Principal: "User:ANONYMOUS", Listener: listener},
	})()
	require.False(t, reply.Close, "connection closed: %v", reply.Err)
	out := in.ResponseKind()
	out.SetVersion(version)
	require.NoError(t, out.ReadFrom(whole(reply)))
	return out.(R)
}

// zonedCases are memberships, and the zones that lead the partitions of clients that come by the listener of zone b.
var zonedCases = []struct {
	name    string
	members []*api.Member
	shown   []string // zones of the brokers
	lead    []string
}{
	{"all zones have agents", []*api.Member{zonedMember(1, "a", "a", "b", "c"), zonedMember(2, "b", "a", "b", "c"), zonedMember(3, "c", "a", "b", "c")}, []string{"b", "a", "c"}, []string{"b"}},
	{"zone b has no agent", []*api.Member{zonedMember(1, "a", "a", "b", "c"), zonedMember(3, "c", "a", "b", "c")}, []string{"a", "c"}, []string{"a", "c"}},
	{"zone b is back", []*api.Member{zonedMember(1, "a", "a", "b", "c"), zonedMember(4, "b", "a", "b", "c"), zonedMember(3, "c", "a", "b", "c")}, []string{"b", "a", "c"}, []string{"b"}},
	{"zone c lacks the listener", []*api.Member{zonedMember(1, "a", "a", "b", "c"), zonedMember(4, "b", "a", "b", "c"), zonedMember(3, "c", "a", "c")}, []string{"b", "a"}, []string{"b"}},
	{"zone b lacks its listener", []*api.Member{zonedMember(1, "a", "a", "b", "c"), zonedMember(4, "b"), zonedMember(3, "c", "a", "b", "c")}, []string{"a", "c"}, []string{"a", "c"}},
}

// TestMetadata_ByZoneListener: agents of every zone show a client of zone b's listener the agents of zone b as leaders and
// coordinators and other zones' agents as brokers, all at the port of zone b. While zone b has no agent, other zones' agents lead.
func TestMetadata_ByZoneListener(t *testing.T) {
	c := catalogueOf(t)
	for i, tc := range zonedCases {
		version := uint64(20 + i)
		c.OnCatalogue(&api.Catalogue{Index: version, Membership: &api.Membership{Version: version, Members: tc.members}})
		for _, own := range []string{"a", "b", "c"} {
			t.Run(tc.name+", at zone "+own, func(t *testing.T) {
				views := zonedViews(t, own)
				out := byListener[*kmsg.MetadataResponse](t, NewMetadata(MetadataConfig{Catalogue: c, Views: views, Prober: never(t)}), "b", 12, metadataRequest("alpha"))
				rackOf, shown := map[int32]string{}, []string{}
				for _, b := range out.Brokers {
					require.Equal(t, portOf["b"], b.Port)
					require.Equal(t, "agent-"+*b.Rack, b.Host)
					rackOf[b.NodeID], shown = *b.Rack, append(shown, *b.Rack)
				}
				require.Equal(t, tc.shown, shown)
				for _, p := range out.Topics[0].Partitions {
					require.Contains(t, tc.lead, rackOf[p.Leader])
					require.Len(t, p.Replicas, len(tc.shown), "one per zone")
				}
				in := kmsg.NewPtrFindCoordinatorRequest()
				in.CoordinatorKeys = []string{"g"}
				at := byListener[*kmsg.FindCoordinatorResponse](t, NewFindCoordinator(c, views), "b", 6, in).Coordinators[0]
				require.Contains(t, tc.lead, rackOf[at.NodeID])
				require.Equal(t, "agent-"+rackOf[at.NodeID], at.Host)
				require.Equal(t, portOf["b"], at.Port)
			})
		}
	}
}

// TestProduce_ByZoneListenerDrainingRedirects: the redirect names the agent of the listener's zone, at the port of that zone.
func TestProduce_ByZoneListenerDrainingRedirects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newProduceRig(t)
		r.Produce.cfg.Views = zonedViews(t, "a")
		require.NoError(t, r.writer.Drain(t.Context()))
		for i, tc := range zonedCases {
			version := uint64(20 + i)
			r.catalogue.OnCatalogue(&api.Catalogue{Index: version, Membership: &api.Membership{Version: version, Members: tc.members}})
			out := byListener[*kmsg.ProduceResponse](t, r, "b", 12, produceOf(-1, to{1, 0, recordBatch("a")}))
			p := out.Topics[0].Partitions[0]
			require.Equal(t, kerr.NotLeaderForPartition.Code, p.ErrorCode)
			require.Len(t, out.Brokers, 1)
			require.Equal(t, p.CurrentLeader.LeaderID, out.Brokers[0].NodeID)
			require.Contains(t, tc.lead, *out.Brokers[0].Rack, tc.name)
			require.Equal(t, portOf["b"], out.Brokers[0].Port)
		}
	})
}

// TestFetch_ByZoneListenerDrainingRedirects is the same for Fetch.
func TestFetch_ByZoneListenerDrainingRedirects(t *testing.T) {
	for _, tc := range zonedCases {
		synctest.Test(t, func(t *testing.T) {
			r := newReaders(t)
			r.produce(t, 0, 1, 2)
			members := make([]*api.Member, len(tc.members)) // this agent is session 1, and has left
			for i, m := range tc.members {
				members[i] = zonedMember(m.Session+10, m.Zone)
				members[i].Endpoints = m.Endpoints
				members[i].NodeIds = m.NodeIds
			}
			r.leave(t, members...)
			r.fetch.cfg.Departure.views = zonedViews(t, "a")
			passTime(time.Millisecond)
			out := byListener[*kmsg.FetchResponse](t, r.fetch, "b", 17, fetchRequest(17, 5000, knowing(fetchPartition(0, 0), 3)))
			p := out.Topics[0].Partitions[0]
			require.Equal(t, kerr.NotLeaderForPartition.Code, p.ErrorCode)
			require.Len(t, out.Brokers, 1)
			require.Equal(t, p.CurrentLeader.LeaderID, out.Brokers[0].NodeID)
			require.Contains(t, tc.lead, *out.Brokers[0].Rack, tc.name)
			require.Equal(t, portOf["b"], out.Brokers[0].Port)
		})
	}
}
