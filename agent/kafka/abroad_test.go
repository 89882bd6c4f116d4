package kafka

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
)

// TestViews_Abroad: a client is abroad if its zone is known from its client id or network and has agents at its listener, and this agent
// is in another zone.
func TestViews_Abroad(t *testing.T) {
	c := catalogueOf(t)
	zones, err := NewZones("a", []string{"10.0.2.0/24=b"}, []string{"bound=b", "other=b"})
	require.NoError(t, err)
	views := NewViews(zones)
	abroad := func(clientID, host, listener string) bool {
		return views.Abroad(c.Load(), &edge.Request{ClientID: clientID, Client: &edge.Client{Host: host, Listener: listener}})
	}
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: membersIn(8, "a", "b")})
	require.True(t, abroad("reader,zone=b", "10.0.1.1", "main"))
	require.True(t, abroad("reader", "10.0.2.1", "main"))
	require.False(t, abroad("reader,zone=a", "10.0.2.1", "main"), "at home")
	require.False(t, abroad("reader", "10.0.1.1", "main"), "unknown")
	require.True(t, abroad("reader", "10.0.1.1", "other"), "the listener is bound to zone b")
	require.False(t, abroad("reader,zone=a", "10.0.1.1", "other"), "the client ID comes before the listener")
	require.False(t, abroad("reader", "10.0.1.1", "bound"), "no agent of zone b has the listener")
	require.False(t, abroad("reader,zone=b", "10.0.1.1", "a listener of no agent"), "no agent of the zone has the listener")
	require.False(t, abroad("reader,zone=c", "10.0.1.1", "main"), "a zone without agents")

	c.OnCatalogue(&api.Catalogue{Index: 4, Membership: &api.Membership{
		Version: 9, Members: []*api.Member{member(80, "a")}, Gone: []*api.Member{member(81, "b")},
	}})
	require.False(t, abroad("reader,zone=b", "10.0.1.1", "main"), "the zone has lost its agents")
}

// TestViews_ClosesAbroad: sarama is abroad, and keeps its connections.
func TestViews_ClosesAbroad(t *testing.T) {
	c := catalogueOf(t)
	zones, err := NewZones("a", nil, nil)
	require.NoError(t, err)
	views := NewViews(zones)
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: membersIn(8, "a", "b")})
	for software, closes := range map[string]bool{"": true, "apache-kafka-java": true, "sarama": false} {
		for zone, abroad := range map[string]bool{"a": false, "b": true} {
			req := &edge.Request{ClientID: "reader,zone=" + zone, Client: &edge.Client{Listener: "main"}}
			if software != "" {
				req.Client.SetSoftware(edge.Software{Name: software, Version: "1"})
			}
			require.Equal(t, abroad, views.Abroad(c.Load(), req))
			require.Equal(t, abroad && closes, views.ClosesAbroad(c.Load(), req), "%s of zone %s", software, zone)
		}
	}
}

// TestViews_AbroadAtASharedListener: behind the load balancer of another zone, if the client's zone has one.
func TestViews_AbroadAtASharedListener(t *testing.T) {
	c := catalogueOf(t)
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: membersIn(8, "a", "b", "c")})
	views := sharedViews(t, "a", "a", "b")
	for zone, want := range map[string]bool{"a": false, "b": true, "c": false} {
		req := &edge.Request{ClientID: "zone=" + zone, Client: &edge.Client{Listener: "main"}}
		require.Equal(t, want, views.Abroad(c.Load(), req), zone)
	}
}

// commitAs is a commit of two offsets.
func commitAs(member string, generation int32) kmsg.Request {
	in := kmsg.NewPtrOffsetCommitRequest()
	in.Group, in.MemberID, in.Generation = "g", member, generation
	in.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "alpha", Partitions: make([]kmsg.OffsetCommitRequestTopicPartition, 2)}}
	return in
}

// TestForward_SendsClientsAbroadHome: heartbeats, commits without a member and requests of transactions get NOT_COORDINATOR once. Joins,
// commits of members and the like never do. FindCoordinator names an agent of the client's zone, which serves the client.
func TestForward_SendsClientsAbroadHome(t *testing.T) {
	c := catalogueOf(t)
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: membersIn(8, "a", "b")})
	asked := 0
	config := func(own string) Config {
		cfg := Config{Catalogue: c, Views: NewViews(zonesOf(t, own)), Zones: zonesOf(t, own), Prober: proberFunc(func(context.Context) (uint64, error) { return 1, nil }), Forwarder: forwarderFunc(
			func(context.Context, client.Forward) ([]byte, error) {
				asked++
				return nil, client.ErrInvalid // closes the connection, which nobody looks at here
			})}
		cfg.ApplyDefaults()
		return cfg
	}
	at := func(epoch int32) kmsg.Request {
		in := memberAt(epoch).(*kmsg.ConsumerGroupHeartbeatRequest)
		in.MemberID = "m"
		return in
	}
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.Topics = "t", []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "alpha", Partitions: []int32{0, 1}}}
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.Topics = "t", []kmsg.TxnOffsetCommitRequestTopic{{Topic: "alpha", Partitions: make([]kmsg.TxnOffsetCommitRequestTopicPartition, 2)}}
	cases := []struct {
		name    string
		in      kmsg.Request
		version int16
		errors  int // of the redirect; 0: forwarded
	}{
		{"heartbeat", &kmsg.HeartbeatRequest{Group: "g", MemberID: "m"}, 4, 1},
		{"old heartbeat", &kmsg.HeartbeatRequest{Group: "g", MemberID: "m"}, 0, 1},
		{"consumer protocol", at(7), 1, 1},
		{"joining", at(0), 1, 0},
		{"leaving", at(-1), 1, 0},
		{"join", &kmsg.JoinGroupRequest{Group: "g", MemberID: "m"}, 5, 0},
		{"sync", &kmsg.SyncGroupRequest{Group: "g", MemberID: "m"}, 3, 0},
		{"leave", &kmsg.LeaveGroupRequest{Group: "g", MemberID: "m"}, 2, 0},
		{"commit of a member", commitAs("m", 3), 8, 0},
		{"commit without a member", commitAs("", -1), 8, 2},
		{"fetch of offsets", &kmsg.OffsetFetchRequest{Group: "g"}, 5, 0},
		{"partitions of a transaction", add, 3, 2},
		{"partitions of a transaction, by a broker", &kmsg.AddPartitionsToTxnRequest{}, 4, 0},
		{"group of a transaction", &kmsg.AddOffsetsToTxnRequest{TransactionalID: "t", Group: "g"}, 3, 1},
		{"offsets of a transaction", commit, 3, 2},
		{"end of a transaction", &kmsg.EndTxnRequest{TransactionalID: "t"}, 3, 1},
		{"a new producer", &kmsg.InitProducerIDRequest{TransactionalID: kmsg.StringPtr("t")}, 4, 0},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			f := newForwarded(tc.in.Key(), config("a"))
			send := func(f *forwarded, clientID string) (errors []int16) {
				asked = 0
				errors = start(t, f, tc.version, tc.in, clientID)().Errors
				require.Equal(t, asked == 0, len(errors) > 0)
				return errors
			}
			require.Empty(t, send(f, "x"), "of no known zone")
			require.Empty(t, send(f, "x,zone=a"), "at home")
			require.Empty(t, send(f, "x,zone=c"), "without agents at home")
			got := send(f, "x,zone=b")
			require.Len(t, got, tc.errors)
			for _, code := range got {
				require.Equal(t, kerr.NotCoordinator.Code, code)
			}
			require.Empty(t, send(f, "x,zone=b"), "the second time")
			require.Empty(t, send(newForwarded(tc.in.Key(), config("b")), "x,zone=b"), "where FindCoordinator leads")
		})
	}
	found := call[*kmsg.FindCoordinatorResponse](t, NewFindCoordinator(c, config("a").Views), 3,
		&kmsg.FindCoordinatorRequest{CoordinatorKey: "g"}, "x,zone=b")
	require.Contains(t, c.Load().Members[1].NodeIDs, found.NodeID)
}
