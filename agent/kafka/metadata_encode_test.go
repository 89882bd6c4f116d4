package kafka

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/metadata/id"
)

// model answers Metadata plainly, by kmsg's structs and from nothing but a snapshot of the default listener, "main".
type model struct{ s *view.Snapshot }

// group is the agents of a zone; of all zones, if it is "".
func (m model) group(zone string) (agents []assign.Agent, members []*view.Member) {
	for _, a := range m.s.Members {
		if zone == "" || a.Zone == zone {
			agents, members = append(agents, assign.Agent{ID: uint32(a.Session), Ports: 2}), append(members, a)
		}
	}
	return agents, members
}

// groups are those that a client of a zone is shown, its own first.
func (m model) groups(zone string, named bool) []string {
	var zones []string
	for _, a := range m.s.Members {
		zones = append(zones, a.Zone)
	}
	slices.Sort(zones)
	shown := []string{zone}
	if !slices.Contains(zones, zone) {
		shown[0] = ""
	}
	for _, other := range slices.Compact(zones) {
		if named && other != zone {
			shown = append(shown, other)
		}
	}
	return shown
}

func (m model) topic(t *view.Topic, groups []string, standIns int) kmsg.MetadataResponseTopic {
	out := kmsg.NewMetadataResponseTopic()
	out.Topic, out.TopicID = &t.Name, t.ID
	for i := range t.Partitions {
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.LeaderEpoch = i, view.LeaderEpoch(m.s.Version)
		out.Partitions = append(out.Partitions, p)
	}
	leaders := make([]string, t.Partitions) // their zones
	for g, zone := range groups {
		agents, members := m.group(zone)
		for i, at := range assign.Places(t.ID, t.Partitions, agents) {
			p := &out.Partitions[i]
			if g == 0 {
				leaders[i] = members[at.Index].Zone
			} else if leaders[i] == zone {
				continue
			}
			p.Replicas = append(p.Replicas, members[at.Index].NodeIDs[at.Port])
		}
	}
	for i := range out.Partitions {
		p := &out.Partitions[i]
		for k := range standIns {
			p.Replicas = append(p.Replicas, assign.FirstStandIn-int32(k))
		}
		p.Leader, p.ISR = p.Replicas[0], p.Replicas
	}
	return out
}

// gone are the zones that have stand-ins, by their names; the memberships of the test have all in that order.
func (m model) gone(named bool) (zones []string) {
	for _, a := range m.s.Gone {
		if named {
			zones = append(zones, a.Zone)
		}
	}
	return zones
}

func (m model) answer(in *kmsg.MetadataRequest, zone string, named bool) *kmsg.MetadataResponse {
	out := kmsg.NewPtrMetadataResponse()
	out.Version, out.ClusterID = in.Version, &m.s.ClusterID
	groups, gone := m.groups(zone, named), m.gone(named)
	for i, g := range groups {
		_, members := m.group(g)
		for _, a := range members {
			for port := range 2 {
				if i > 0 && groups[0] == "" {
					continue // already
				}
				b := kmsg.NewMetadataResponseBroker()
				b.NodeID, b.Host, b.Port, b.Rack = a.NodeIDs[port], a.Endpoints[port].Host, a.Endpoints[port].Port, &a.Zone
				out.Brokers = append(out.Brokers, b)
			}
		}
	}
	_, own := m.group(groups[0])
	for i := range gone {
		b := kmsg.NewMetadataResponseBroker()
		at := own[len(own)-1].Endpoints[1]
		b.NodeID, b.Host, b.Port, b.Rack = assign.FirstStandIn-int32(i), at.Host, at.Port, &gone[i]
		out.Brokers = append(out.Brokers, b)
	}
	out.ControllerID = out.Brokers[0].NodeID
	if in.IncludeClusterAuthorizedOperations {
		out.AuthorizedOperations = 8096
	}
	add := func(t *view.Topic) {
		a := m.topic(t, groups, len(gone))
		if in.IncludeTopicAuthorizedOperations {
			a.AuthorizedOperations = 3576
		}
		out.Topics = append(out.Topics, a)
	}
	if in.Topics == nil || in.Version == 0 && len(in.Topics) == 0 {
		for t := range m.s.Topics() {
			add(t)
		}
		return out
	}
	for _, asked := range in.Topics {
		refused := kmsg.NewMetadataResponseTopic()
		var t *view.Topic
		var ok bool
		if asked.Topic != nil {
			t, ok = m.s.TopicByName(*asked.Topic)
			refused.Topic, refused.ErrorCode = asked.Topic, kerr.UnknownTopicOrPartition.Code
			if strings.Contains(*asked.Topic, " ") {
				refused.ErrorCode = kerr.InvalidTopicException.Code
			}
		} else {
			t, ok = m.s.TopicByID(asked.TopicID)
			refused.TopicID, refused.ErrorCode = asked.TopicID, kerr.UnknownTopicID.Code
		}
		if ok {
			add(t)
		} else {
			out.Topics = append(out.Topics, refused)
		}
	}
	return out
}

// someCatalogue has topics of all sizes, by name and by what of them moved, and agents in three zones.
func someCatalogue(r *rand.Rand) *view.Catalogue {
	c := view.NewCatalogue()
	c.OnWelcome(&api.Welcome{ClusterId: "the-cluster"})
	full := &api.Catalogue{Index: 1, Full: true}
	for i, partitions := range []int32{1, 3, 1 + r.Int32N(10), 40, 100 + r.Int32N(100), 300} {
		full.Topics = append(full.Topics, &api.Topic{
			Id: topicID(byte(i + 1)), Name: fmt.Sprintf("t%d%s", i, strings.Repeat("x", r.IntN(200))), Partitions: partitions,
		})
	}
	full.Membership = someMembership(r, 1)
	c.OnCatalogue(full)
	return c
}

func someMembership(r *rand.Rand, version uint64) *api.Membership {
	m := &api.Membership{Version: version}
	for i := range 1 + r.Uint32N(7) {
		m.Members = append(m.Members, member(1+i*3, string(rune('a'+r.IntN(3)))))
	}
	for i := range r.Uint32N(3) {
		gone := member(2+i*3, string(rune('d'+i)))
		gone.NodeIds = nil
		m.Gone = append(m.Gone, gone)
	}
	return m
}

// someRequest asks for all topics, none, or some by name or by id, among them ones that are not there.
func someRequest(r *rand.Rand, version int16, s *view.Snapshot) *kmsg.MetadataRequest {
	in := metadataRequest()
	in.Version = version
	in.IncludeTopicAuthorizedOperations, in.IncludeClusterAuthorizedOperations = r.IntN(3) == 0, r.IntN(3) == 0
	kind := r.IntN(5)
	if kind == 0 {
		return in
	}
	in.Topics = []kmsg.MetadataRequestTopic{}
	byID := version >= 12 && kind == 1
	add := func(name string, topic id.Topic) {
		t := kmsg.NewMetadataRequestTopic()
		if byID {
			t.TopicID = topic
		} else {
			t.Topic = &name
		}
		in.Topics = append(in.Topics, t)
	}
	for t := range s.Topics() {
		if r.IntN(2) == 0 {
			add(t.Name, t.ID)
		}
	}
	if kind == 2 {
		add("bad name", [16]byte{98})
	}
	if kind >= 3 || byID {
		add("unknown", [16]byte{99})
	}
	r.Shuffle(len(in.Topics), func(i, j int) { in.Topics[i], in.Topics[j] = in.Topics[j], in.Topics[i] })
	return in
}

// TestMetadata_EncodesAsKmsg: every answer has the bytes that kmsg makes of the model's answer, in every version, with a kept list
// or a new one, and after every change of the membership and of topics.
func TestMetadata_EncodesAsKmsg(t *testing.T) {
	for seed := range uint64(2) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := someCatalogue(r)
		prober := proberFunc(func(context.Context) (uint64, error) { return c.Load().Index, nil })
		m := NewMetadata(MetadataConfig{Catalogue: c, Views: NewViews(zonesOf(t, "a")), Prober: prober})
		for index := uint64(2); index < 5; index++ {
			for range 6 {
				for version := range int16(14) {
					compare(t, r, m, c.Load(), version)
				}
			}
			change := &api.Catalogue{Index: index}
			if index%2 == 0 {
				change.Membership = someMembership(r, index)
			} else {
				change.Topics = []*api.Topic{{Id: topicID(4), Name: "renamed", Partitions: 60}}
			}
			c.OnCatalogue(change)
		}
	}
}

func compare(t *testing.T, r *rand.Rand, m *Metadata, s *view.Snapshot, version int16) {
	t.Helper()
	in := someRequest(r, version, s)
	zone, named, clientID := "a", false, "me"
	if r.IntN(2) == 0 {
		zone, named = string(rune('a'+r.IntN(4))), true
		clientID = "zone=" + zone
	}
	want := model{s}.answer(in, zone, named)
	reply := start(t, m, version, in, clientID)()
	require.True(t, bytes.Equal(want.AppendTo(nil), whole(reply)), "version %d, zone %s, asked %+v", version, zone, in)
	require.Equal(t, errorCodes(want), reply.Errors)
}

// TestMetadata_ListsAreBounded: a list that does not fit beside the others takes their place. One above the bound is encoded for
// each request.
func TestMetadata_ListsAreBounded(t *testing.T) {
	lists := topicLists{encoded: newEncoded(prometheus.NewRegistry())}
	snapshot, encoded := new(view.Snapshot), 0
	get := func(version int16, size int) {
		t.Helper()
		list := lists.get(snapshot, listKey{version: version}, func() []byte { encoded++; return make([]byte, size) })
		require.Len(t, list, size)
		require.LessOrEqual(t, lists.mu.bytes, maxListBytes)
		require.InDelta(t, lists.mu.bytes, testutil.ToFloat64(lists.encoded), 0)
	}
	for version := range int16(7) {
		get(version, maxListBytes/8)
		get(version, maxListBytes/8)
	}
	require.Equal(t, 7, encoded, "each is encoded once")
	for range 2 {
		get(7, maxListBytes/8+1)
		get(8, maxListBytes+1)
	}
	require.Equal(t, 10, encoded, "the first is kept, the second never")
	get(7, maxListBytes/8+1)
	get(0, maxListBytes/8)
	get(0, maxListBytes/8)
	require.Equal(t, 11, encoded, "the others went")

	snapshot = new(view.Snapshot)
	get(8, maxListBytes)
	get(8, maxListBytes)
	require.Equal(t, 12, encoded, "lists of an earlier snapshot take no room")
}

// TestMetadata_ListIsEncodedOnce: clients that ask for all topics at the same time share one encoding.
func TestMetadata_ListIsEncodedOnce(t *testing.T) {
	lists := topicLists{encoded: newEncoded(prometheus.NewRegistry())}
	snapshot := new(view.Snapshot)
	var encoded atomic.Int32
	var asking, all sync.WaitGroup
	const clients = 10
	asking.Add(clients)
	for range clients {
		all.Go(func() {
			asking.Done()
			lists.get(snapshot, listKey{}, func() []byte { encoded.Add(1); asking.Wait(); return make([]byte, 10) })
		})
	}
	all.Wait()
	require.EqualValues(t, 1, encoded.Load())
	require.Equal(t, 10, lists.mu.bytes)
}

// BenchmarkMetadata is a request for one topic of 100 partitions, and one for 1,000 of them, by one client of twelve nodes.
func BenchmarkMetadata(b *testing.B) {
	full := &api.Catalogue{Index: 1, Full: true, Membership: &api.Membership{Version: 1}}
	for i := range 1000 {
		full.Topics = append(full.Topics, &api.Topic{
			Id: append(make([]byte, 14), byte(i>>8), byte(i)), Name: fmt.Sprintf("idle-%05d", i), Partitions: 100,
		})
	}
	for i := range uint32(6) {
		full.Membership.Members = append(full.Membership.Members, member(i+1, "a"))
	}
	c := view.NewCatalogue()
	c.OnWelcome(&api.Welcome{ClusterId: "the-cluster"})
	c.OnCatalogue(full)
	fresh := proberFunc(func(context.Context) (uint64, error) { return 1, nil })
	m := NewMetadata(MetadataConfig{Catalogue: c, Views: NewViews(&Zones{own: "a"}), Prober: fresh})
	for name, in := range map[string]*kmsg.MetadataRequest{"one": metadataRequest("idle-00007"), "all": metadataRequest()} {
		b.Run(name, func(b *testing.B) {
			in.Version = 8
			body := in.AppendTo(nil)
			b.ReportAllocs()
			for b.Loop() {
				m.Start(b.Context(), &edge.Request{Key: 3, Version: 8, Body: body, Client: &edge.Client{Listener: "main"}})()
			}
		})
	}
}
