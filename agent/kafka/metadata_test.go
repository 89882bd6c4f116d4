package kafka

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
)

// never is a prober that fails the test: known topics need no fresh catalogue.
func never(t *testing.T) view.Prober {
	t.Helper()
	return proberFunc(func(context.Context) (uint64, error) {
		t.Error("asked for fresh knowledge")
		return 0, errTest
	})
}

func metadataOf(c *view.Catalogue, p view.Prober, creator TopicCreator) *Metadata {
	return NewMetadata(MetadataConfig{Catalogue: c, Views: NewViews(&Zones{own: "a"}), Prober: p, Creator: creator})
}

// metadataRequest asks for topics by name; none: all topics.
func metadataRequest(names ...string) *kmsg.MetadataRequest {
	in := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		in.Topics = append(in.Topics, t)
	}
	return in
}

func nodes(out *kmsg.MetadataResponse) []int32 {
	var ids []int32
	for _, b := range out.Brokers {
		ids = append(ids, b.NodeID)
	}
	return ids
}

func TestMetadata_EveryVersion(t *testing.T) {
	m := metadataOf(catalogueOf(t), never(t), nil)
	for version := int16(0); version <= 13; version++ {
		out := call[*kmsg.MetadataResponse](t, m, version, metadataRequest("beta", "alpha", "beta"), "")
		require.Len(t, out.Topics, 2, "each once, in order")
		require.Equal(t, "beta", *out.Topics[0].Topic)
		require.Equal(t, "alpha", *out.Topics[1].Topic)
		require.Len(t, out.Topics[1].Partitions, 12)
		for _, p := range out.Topics[1].Partitions {
			require.Equal(t, []int32{p.Leader}, p.Replicas)
			if version >= 7 {
				require.EqualValues(t, 7, p.LeaderEpoch, "the membership version")
			}
		}
		require.Equal(t, []int32{10, 11, 20, 21}, nodes(out), "both ports of the zone's agents")
		if version >= 1 {
			require.EqualValues(t, 10, out.ControllerID)
			require.Equal(t, "a", *out.Brokers[0].Rack)
		}
		if version >= 2 {
			require.Equal(t, "the-cluster", *out.ClusterID)
		}
		if version >= 10 {
			require.EqualValues(t, topicID(2), out.Topics[0].TopicID[:])
		}
	}
}

func TestMetadata_AllAndNone(t *testing.T) {
	m := metadataOf(catalogueOf(t), proberFunc(func(context.Context) (uint64, error) { return 0, errTest }), nil)
	for version := int16(0); version <= 13; version++ {
		all := metadataRequest()
		if version == 0 {
			all.Topics = []kmsg.MetadataRequestTopic{}
		}
		require.Len(t, call[*kmsg.MetadataResponse](t, m, version, all, "").Topics, 2)
		if version > 0 {
			none := metadataRequest()
			none.Topics = []kmsg.MetadataRequestTopic{}
			require.Empty(t, call[*kmsg.MetadataResponse](t, m, version, none, "").Topics)
		}
	}
}

func TestMetadata_Zones(t *testing.T) {
	m := metadataOf(catalogueOf(t), never(t), nil)
	ask := func(clientID string) *kmsg.MetadataResponse {
		return call[*kmsg.MetadataResponse](t, m, 13, metadataRequest("alpha"), clientID)
	}
	b := ask("zone=b")
	require.Equal(t, []int32{30, 31, 40, 41, 10, 11, 20, 21}, nodes(b))
	require.EqualValues(t, 30, b.ControllerID)
	leaders := map[int32]int{}
	for i, p := range b.Topics[0].Partitions {
		leaders[p.Leader/10]++
		require.Len(t, p.Replicas, 2, "one per zone")
		require.Equal(t, p.Leader, p.Replicas[0])
		own := ask("zone=a").Topics[0].Partitions[i]
		require.Equal(t, p.Replicas[1], own.Leader, "the other zone's own choice")
		require.Equal(t, ask("").Topics[0].Partitions[i].Leader, own.Leader, "with or without naming the zone")
	}
	require.Equal(t, map[int32]int{3: 6, 4: 6}, leaders, "agents alike")

	nowhere := ask("zone=c")
	require.Len(t, nowhere.Brokers, 8, "all, if the zone has none")
	require.Len(t, nowhere.Topics[0].Partitions[0].Replicas, 2, "still one per zone")
}

// racksOf returns the racks of each partition of the first topic as clients compute them: sorted, each once.
func racksOf(t *testing.T, out *kmsg.MetadataResponse) (racks [][]string) {
	t.Helper()
	rackOf := map[int32]string{}
	for _, b := range out.Brokers {
		require.NotContains(t, rackOf, b.NodeID, "each node once")
		rackOf[b.NodeID] = *b.Rack
	}
	for _, p := range out.Topics[0].Partitions {
		var of []string
		for _, node := range p.Replicas {
			require.Contains(t, rackOf, node)
			of = append(of, rackOf[node])
		}
		slices.Sort(of)
		racks = append(racks, slices.Compact(of))
	}
	return racks
}

// TestMetadata_RacksStay: the racks of partitions are the same for clients of every zone and for every replication factor while zones
// empty and refill. Leaders and coordinators are running agents. Clients see the replication factor if their nodes are enough.
func TestMetadata_RacksStay(t *testing.T) {
	var before [][]string
	for factor := range 5 {
		before = racksStay(t, factor, before)
	}
}

func racksStay(t *testing.T, factor int, before [][]string) [][]string {
	t.Helper()
	c := catalogueOf(t)
	c.OnCatalogue(&api.Catalogue{Index: 2, Topics: []*api.Topic{{Id: topicID(1), Name: "alpha", Partitions: 12, ReplicationFactor: int32(factor)}}})
	m, find := metadataOf(c, never(t), nil), NewFindCoordinator(c, NewViews(zonesOf(t, "a")))
	gone := func(session uint32, zone string) *api.Member {
		m := member(session, zone)
		m.NodeIds = nil
		return m
	}
	for i, membership := range []*api.Membership{
		{Members: []*api.Member{member(1, "a"), member(2, "a"), member(3, "b"), member(4, "c")}},
		{Members: []*api.Member{member(1, "a"), member(3, "b")}, Gone: []*api.Member{gone(4, "c")}},
		{Members: []*api.Member{member(3, "b"), member(5, "b")}, Gone: []*api.Member{gone(1, "a"), gone(4, "c")}},
		{Members: []*api.Member{member(6, "c")}, Gone: []*api.Member{gone(1, "a"), gone(5, "b")}},
		{Gone: []*api.Member{gone(1, "a"), gone(5, "b"), gone(6, "c")}}, // the last one drains
		{Members: []*api.Member{member(7, "a")}, Gone: []*api.Member{gone(5, "b"), gone(6, "c")}},
		{Members: []*api.Member{member(7, "a"), member(8, "b"), member(9, "c")}},
	} {
		membership.Version = uint64(20 + i)
		c.OnCatalogue(&api.Catalogue{Index: membership.Version, Membership: membership})
		real := map[int32]bool{}
		for _, member := range c.Load().Shown() {
			for _, node := range member.NodeIDs {
				real[node] = true
			}
		}
		for _, zone := range []string{"a", "b", "c"} {
			out := call[*kmsg.MetadataResponse](t, m, 12, metadataRequest("alpha"), "zone="+zone)
			racks := racksOf(t, out)
			if before == nil {
				before = racks
			}
			require.Equal(t, before, racks, "zone %s, membership %d", zone, i)
			require.True(t, real[out.ControllerID])
			for _, p := range out.Topics[0].Partitions {
				require.True(t, real[p.Leader])
				require.Equal(t, p.Leader, p.Replicas[0])
				require.Len(t, p.Replicas, max(3, factor), "at least one per zone")
			}
			in := kmsg.NewPtrFindCoordinatorRequest()
			in.CoordinatorKeys = []string{"g"}
			require.True(t, real[call[*kmsg.FindCoordinatorResponse](t, find, 6, in, "zone="+zone).Coordinators[0].NodeID])
		}
		unnamed := call[*kmsg.MetadataResponse](t, m, 12, metadataRequest("alpha"), "")
		own := unnamed.Topics[0].Partitions[0].Replicas
		require.Len(t, own, min(max(1, factor), len(unnamed.Brokers)), "nodes of the client's own zone alone")
	}
	return before
}

func TestMetadata_ByListener(t *testing.T) {
	m := metadataOf(catalogueOf(t), never(t), nil)
	in := metadataRequest("alpha")
	in.SetVersion(12)
	reply := m.Start(t.Context(), &edge.Request{
		Key: 3, Version: 12, Body: in.AppendTo(nil), Client: &edge.Client{Listener: "other"},
	})()
	out := kmsg.NewPtrMetadataResponse()
	out.SetVersion(12)
	require.NoError(t, out.ReadFrom(whole(reply)))
	require.Equal(t, []int32{12, 22}, nodes(out))
	main := call[*kmsg.MetadataResponse](t, m, 12, in, "")
	for i, p := range out.Topics[0].Partitions {
		require.Equal(t, main.Topics[0].Partitions[i].Leader/10, p.Leader/10, "listeners agree on the agent")
	}
}

func TestMetadata_ByID(t *testing.T) {
	fresh := 0
	m := metadataOf(catalogueOf(t), proberFunc(func(context.Context) (uint64, error) { fresh++; return 1, nil }), nil)
	in := metadataRequest()
	for _, n := range []byte{2, 9, 2} {
		topic := kmsg.NewMetadataRequestTopic()
		topic.TopicID = [16]byte(topicID(n))
		in.Topics = append(in.Topics, topic)
	}
	out := call[*kmsg.MetadataResponse](t, m, 12, in, "")
	require.Len(t, out.Topics, 2)
	require.Equal(t, "beta", *out.Topics[0].Topic)
	require.Equal(t, kerr.UnknownTopicID.Code, out.Topics[1].ErrorCode)
	require.Nil(t, out.Topics[1].Topic)
	require.Equal(t, 1, fresh)

	out = call[*kmsg.MetadataResponse](t, m, 10, in, "")
	require.Equal(t, kerr.InvalidRequest.Code, out.Topics[0].ErrorCode, "ids come with version 12")
}

func TestMetadata_AuthorizedOperations(t *testing.T) {
	m := metadataOf(catalogueOf(t), never(t), nil)
	in := metadataRequest("alpha")
	out := call[*kmsg.MetadataResponse](t, m, 10, in, "")
	require.EqualValues(t, math.MinInt32, out.AuthorizedOperations)
	require.EqualValues(t, math.MinInt32, out.Topics[0].AuthorizedOperations)
	in.IncludeClusterAuthorizedOperations, in.IncludeTopicAuthorizedOperations = true, true
	out = call[*kmsg.MetadataResponse](t, m, 10, in, "")
	require.EqualValues(t, 8096, out.AuthorizedOperations)
	require.EqualValues(t, 3576, out.Topics[0].AuthorizedOperations)
}

// TestMetadata_UnknownNeedsFreshKnowledge: an absence rests on knowledge as new as the request (I4).
func TestMetadata_UnknownNeedsFreshKnowledge(t *testing.T) {
	c := catalogueOf(t)
	away := metadataOf(c, proberFunc(func(context.Context) (uint64, error) { return 0, errTest }), nil)
	out := call[*kmsg.MetadataResponse](t, away, 12, metadataRequest("gamma", "beta", "bad name"), "")
	require.Equal(t, kerr.LeaderNotAvailable.Code, out.Topics[0].ErrorCode, "not known to be absent")
	require.Zero(t, out.Topics[1].ErrorCode)
	require.Equal(t, kerr.InvalidTopicException.Code, out.Topics[2].ErrorCode)

	here := metadataOf(c, proberFunc(func(context.Context) (uint64, error) { return 1, nil }), nil)
	out = call[*kmsg.MetadataResponse](t, here, 12, metadataRequest("gamma"), "")
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, out.Topics[0].ErrorCode)

	arrives := metadataOf(c, proberFunc(func(context.Context) (uint64, error) {
		c.OnCatalogue(&api.Catalogue{Index: 2, Topics: []*api.Topic{{Id: topicID(3), Name: "gamma", Partitions: 1}}})
		return 2, nil
	}), nil)
	out = call[*kmsg.MetadataResponse](t, arrives, 12, metadataRequest("gamma"), "")
	require.Zero(t, out.Topics[0].ErrorCode)

	lists := metadataOf(c, proberFunc(func(context.Context) (uint64, error) {
		c.OnCatalogue(&api.Catalogue{Index: 3, Topics: []*api.Topic{{Id: topicID(4), Name: "delta", Partitions: 1}}})
		return 3, nil
	}), nil)
	out = call[*kmsg.MetadataResponse](t, lists, 12, metadataRequest(), "")
	require.Len(t, out.Topics, 4, "a list lacks nothing that was there when it was asked for")
}

func TestMetadata_AutoCreate(t *testing.T) {
	c := catalogueOf(t)
	var created []string
	to := forwarderFunc(func(_ context.Context, f client.Forward) ([]byte, error) {
		in := kmsg.NewPtrCreateTopicsRequest()
		in.SetVersion(f.Version)
		require.NoError(t, in.ReadFrom(f.Body))
		out := kmsg.NewPtrCreateTopicsResponse()
		out.SetVersion(f.Version)
		for i, topic := range in.Topics {
			require.EqualValues(t, -1, topic.NumPartitions)
			require.EqualValues(t, -1, topic.ReplicationFactor)
			created = append(created, topic.Topic)
			a := kmsg.NewCreateTopicsResponseTopic()
			a.Topic = topic.Topic
			switch topic.Topic {
			case "refused":
				a.ErrorCode = kerr.PolicyViolation.Code
			case "later":
				a.ErrorCode = kerr.NotController.Code
			default:
				c.OnCatalogue(&api.Catalogue{Index: 2, Topics: []*api.Topic{
					{Id: topicID(byte(50 + i)), Name: topic.Topic, Partitions: 1},
				}})
			}
			out.Topics = append(out.Topics, a)
		}
		return out.AppendTo(nil), nil
	})
	fresh := proberFunc(func(context.Context) (uint64, error) { return 2, nil })
	m := metadataOf(c, fresh, NewAutoCreate(to, zonesOf(t, "a")))

	in := metadataRequest("alpha", "new", "refused", "later", "not valid")
	in.AllowAutoTopicCreation = false
	out := call[*kmsg.MetadataResponse](t, m, 4, in, "")
	require.Empty(t, created)
	require.Equal(t, kerr.UnknownTopicOrPartition.Code, out.Topics[1].ErrorCode)

	in.AllowAutoTopicCreation = true
	out = call[*kmsg.MetadataResponse](t, m, 12, in, "")
	require.Equal(t, []string{"new", "refused", "later"}, created)
	var got []int16
	for _, topic := range out.Topics {
		got = append(got, topic.ErrorCode)
	}
	require.Equal(t, []int16{
		0, 0, kerr.PolicyViolation.Code, kerr.LeaderNotAvailable.Code, kerr.InvalidTopicException.Code,
	}, got)
}

// creatingOwner creates the topics of CreateTopics requests, and counts the names of each request.
type creatingOwner struct {
	t         *testing.T
	catalogue *view.Catalogue
	index     uint64
	names     []int
}

func (o *creatingOwner) Forward(_ context.Context, f client.Forward) ([]byte, error) {
	in := kmsg.NewPtrCreateTopicsRequest()
	in.SetVersion(f.Version)
	require.NoError(o.t, in.ReadFrom(f.Body))
	require.Less(o.t, f.Version, int16(5), "from version 5 on, the answer has 1 KB of configs for each topic")
	out := kmsg.NewPtrCreateTopicsResponse()
	out.SetVersion(f.Version)
	o.names = append(o.names, len(in.Topics))
	o.index++
	change := &api.Catalogue{Index: o.index}
	for _, topic := range in.Topics {
		a := kmsg.NewCreateTopicsResponseTopic()
		a.Topic = topic.Topic
		out.Topics = append(out.Topics, a)
		sum := sha256.Sum256([]byte(topic.Topic))
		change.Topics = append(change.Topics, &api.Topic{Id: sum[:16], Name: topic.Topic, Partitions: 1})
	}
	o.catalogue.OnCatalogue(change)
	return out.AppendTo(nil), nil
}

// A Metadata request creates 1,000 topics at most. The client asks for the others again.
func TestMetadata_AutoCreateIsBounded(t *testing.T) {
	c := catalogueOf(t)
	owner := &creatingOwner{t: t, catalogue: c, index: 1}
	m := metadataOf(c, proberFunc(func(context.Context) (uint64, error) { return owner.index, nil }), NewAutoCreate(owner, zonesOf(t, "a")))
	var names []string
	for i := range 2*maxAutoCreate + 1 {
		names = append(names, fmt.Sprintf("new-%d", i))
	}
	in := metadataRequest(names...)
	in.AllowAutoTopicCreation = true
	for _, created := range []int{maxAutoCreate, 2 * maxAutoCreate, len(names)} {
		out := call[*kmsg.MetadataResponse](t, m, 8, in, "")
		require.Len(t, out.Topics, len(names))
		for i, topic := range out.Topics {
			want := int16(0)
			if i >= created {
				want = kerr.LeaderNotAvailable.Code
			}
			require.Equal(t, want, topic.ErrorCode, i)
		}
	}
	require.Equal(t, []int{maxAutoCreate, maxAutoCreate, 1}, owner.names)
}

// TestMetadata_BeforeTheCatalogue: an agent that does not know anything yet shows no cluster without brokers, which clients
// would believe.
func TestMetadata_BeforeTheCatalogue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := metadataOf(view.NewCatalogue(), proberFunc(func(context.Context) (uint64, error) { return 0, errTest }), nil)
		began := time.Now()
		require.True(t, start(t, m, 12, metadataRequest("alpha"), "")().Close)
		require.Equal(t, DefaultMetadataTimeout, time.Since(began))
	})
}

// TestMetadata_LastAgentDrains: while the last agents drain, clients are shown them as before.
func TestMetadata_LastAgentDrains(t *testing.T) {
	c := catalogueOf(t)
	m := metadataOf(c, never(t), nil)
	before := call[*kmsg.MetadataResponse](t, m, 12, metadataRequest("alpha"), "zone=a")
	require.NotEmpty(t, before.Brokers)
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: &api.Membership{Version: 8}})
	after := call[*kmsg.MetadataResponse](t, m, 12, metadataRequest("alpha"), "zone=a")
	require.Equal(t, before.Brokers, after.Brokers)
	require.Zero(t, after.Topics[0].ErrorCode)
	require.Equal(t, before.Topics[0].Partitions[0].Leader, after.Topics[0].Partitions[0].Leader)
}

// TestViews_FollowTheMembership: a view changes with the membership only, and keeps what it can.
func TestViews_FollowTheMembership(t *testing.T) {
	c := catalogueOf(t)
	m := metadataOf(c, never(t), nil)
	leaders := func() (out []int32) {
		for _, p := range call[*kmsg.MetadataResponse](t, m, 12, metadataRequest("alpha"), "zone=a").Topics[0].Partitions {
			out = append(out, p.Leader)
		}
		return out
	}
	before := leaders()
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: &api.Membership{Version: 8, Members: []*api.Member{
		member(1, "a"), member(3, "b"),
	}}})
	after := leaders()
	require.NotEqual(t, before, after)
	require.False(t, slices.ContainsFunc(after, func(n int32) bool { return n != 10 && n != 11 }))
}

func TestFindCoordinator(t *testing.T) {
	c := catalogueOf(t)
	f := NewFindCoordinator(c, NewViews(zonesOf(t, "a")))
	for version := int16(0); version <= 6; version++ {
		in := kmsg.NewPtrFindCoordinatorRequest()
		in.CoordinatorKey, in.CoordinatorKeys = "g1", []string{"g1", "g2"}
		out := call[*kmsg.FindCoordinatorResponse](t, f, version, in, "zone=b")
		if version < 4 {
			require.Zero(t, out.ErrorCode)
			require.Contains(t, []int32{30, 40}, out.NodeID)
			require.NotEmpty(t, out.Host)
			continue
		}
		require.Len(t, out.Coordinators, 2)
		require.Equal(t, "g2", out.Coordinators[1].Key)
		require.Contains(t, []int32{30, 40}, out.Coordinators[1].NodeID)
	}
	share := kmsg.NewPtrFindCoordinatorRequest()
	share.CoordinatorType, share.CoordinatorKeys = 2, []string{"g:t:0"}
	out := call[*kmsg.FindCoordinatorResponse](t, f, 6, share, "")
	require.Equal(t, kerr.InvalidRequest.Code, out.Coordinators[0].ErrorCode)

	empty := view.NewCatalogue()
	f = NewFindCoordinator(empty, NewViews(zonesOf(t, "a")))
	in := kmsg.NewPtrFindCoordinatorRequest()
	in.CoordinatorKey = "g"
	require.Equal(t, kerr.CoordinatorNotAvailable.Code, call[*kmsg.FindCoordinatorResponse](t, f, 0, in, "").ErrorCode)
}
