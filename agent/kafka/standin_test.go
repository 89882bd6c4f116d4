package kafka

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/controlplane/api"
)

// TestViews_StandInsBySoftware: only clients that are known to tell nodes by their ids are shown two at one address.
func TestViews_StandInsBySoftware(t *testing.T) {
	c := catalogueOf(t)
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: &api.Membership{
		Version: 8, Members: []*api.Member{member(1, "a"), member(2, "b")}, Gone: []*api.Member{member(3, "c"), member(4, "d")},
	}})
	views := NewViews(zonesOf(t, "a"))
	for s, taken := range map[edge.Software]bool{
		{Name: "apache-kafka-java", Version: "2.4.0"}:                                true,
		{Name: "librdkafka", Version: "2.10.0"}:                                      true,
		{Name: "librdkafka", Version: "3.0.0"}:                                       true,
		{Name: "librdkafka", Version: "2.8.0"}:                                       false,
		{Name: "librdkafka", Version: "1.9.2"}:                                       false,
		{Name: "confluent-kafka-python", Version: "2.16.1-rdkafka-2.16.0"}:           true,
		{Name: "confluent-kafka-python", Version: "2.6.0-rdkafka-2.6.0"}:             false,
		{Name: "karafka", Version: "v2.4.18-rdkafka-ruby-v0.19.0-librdkafka-v2.8.0"}: false,
		{Name: "karafka", Version: "v2.5.0-rdkafka-ruby-v0.22.0-librdkafka-v2.11.0"}: true,
		{Name: "rust-rdkafka", Version: "0.36.2"}:                                    false,
		{Name: "ClickHouse", Version: "v25.1"}:                                       false,
		{}:                                                                           false,
	} {
		from := &edge.Client{Listener: "main"}
		if s.Name != "" { // else one that does not say
			from.SetSoftware(s)
		}
		v := views.of(c.Load(), &edge.Request{ClientID: "zone=a", Client: from})
		addresses := make(map[string]bool)
		for _, b := range v.brokers {
			addresses[fmt.Sprint(b.Host, b.Port)] = true
		}
		require.Equal(t, taken, len(addresses) < len(v.brokers), "%v: several nodes at one address", s)
		topic, _ := c.Load().TopicByName("alpha")
		replicas := v.topic(topic).Partitions[0].Replicas
		want := 2
		if taken {
			want = 4
		}
		require.Len(t, replicas, want, "%v", s)
	}
}

// TestViews_StandInsAreNoCoordinators: Java clients tell connections by node ids, and call the one to the coordinator at node n
// 2^31-1-n.
func TestViews_StandInsAreNoCoordinators(t *testing.T) {
	c := catalogueOf(t)
	var gone []*api.Member
	for i := range uint32(12) {
		gone = append(gone, member(100+i, string(rune('d'+i))))
	}
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: &api.Membership{Version: 8, Members: []*api.Member{member(1, "a")}, Gone: gone}})
	from := &edge.Client{Listener: "main"}
	from.SetSoftware(edge.Software{Name: "apache-kafka-java", Version: "4.1.0"})
	v := NewViews(zonesOf(t, "a")).of(c.Load(), &edge.Request{ClientID: "zone=a", Client: from})
	require.Len(t, v.brokers, 2+len(gone))
	ids := make(map[int32]bool)
	for _, b := range v.brokers {
		ids[b.NodeID] = true
	}
	for _, b := range v.brokers[:2] {
		require.NotContains(t, ids, math.MaxInt32-b.NodeID)
	}
}

// TestViews_ForgottenZone: a zone is forgotten without a new version of the membership, and while all agents drain too.
func TestViews_ForgottenZone(t *testing.T) {
	c := catalogueOf(t)
	m := metadataOf(c, never(t), nil)
	ask := func() int {
		return len(call[*kmsg.MetadataResponse](t, m, 12, metadataRequest("alpha"), "zone=a").Brokers)
	}
	gone := []*api.Member{member(3, "c"), member(4, "d")}
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: &api.Membership{Version: 8, Members: []*api.Member{member(1, "a")}, Gone: gone}})
	require.Equal(t, 4, ask())
	c.OnCatalogue(&api.Catalogue{Index: 4, Membership: &api.Membership{Version: 9, Gone: gone}})
	require.Equal(t, 4, ask())
	c.OnCatalogue(&api.Catalogue{Index: 5, Membership: &api.Membership{Version: 9, Gone: gone[:1]}})
	require.Equal(t, 3, ask())
}
