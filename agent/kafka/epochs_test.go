package kafka

import (
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/controlplane/api"
)

// leadersOf gives leader and epoch of the partitions of "alpha", as a client sees them.
func leadersOf(t *testing.T, m *Metadata, clientID string) (leaders, epochs []int32) {
	t.Helper()
	for _, p := range call[*kmsg.MetadataResponse](t, m, 12, metadataRequest("alpha"), clientID).Topics[0].Partitions {
		leaders, epochs = append(leaders, p.Leader), append(epochs, p.LeaderEpoch)
	}
	return leaders, epochs
}

// tellEpochs gives the partitions of "alpha" epochs of their own: six of 3, six of 5.
func tellEpochs(c *view.Catalogue) {
	c.OnCatalogue(&api.Catalogue{Index: 2, Topics: []*api.Topic{
		{Id: topicID(1), Name: "alpha", Partitions: 12, LeaderEpochs: []int32{6, 3, 6, 5}},
		{Id: topicID(2), Name: "beta", Partitions: 1, LeaderEpochs: []int32{1, 2}},
	}})
}

// TestMetadata_Epochs: a partition's epoch is what the owner says, one number for all zones, and only what has moved
// changes.
func TestMetadata_Epochs(t *testing.T) {
	c := catalogueOf(t)
	m := metadataOf(c, never(t), nil)
	_, epochs := leadersOf(t, m, "")
	require.Equal(t, []int32{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}, epochs, "an owner that does not say")
	tellEpochs(c)
	for _, client := range []string{"", "zone=a", "zone=b", "zone=nowhere"} {
		_, epochs := leadersOf(t, m, client)
		require.Equal(t, []int32{3, 3, 3, 3, 3, 3, 5, 5, 5, 5, 5, 5}, epochs, client)
	}

	members := []*api.Member{member(1, "a"), member(2, "a"), member(3, "b"), member(4, "b"), member(5, "b")}
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: &api.Membership{Version: 8, Members: members}, Moved: []int32{1, 2, 10}})
	for _, client := range []string{"", "zone=a", "zone=b", "zone=nowhere"} {
		_, epochs := leadersOf(t, m, client)
		require.Equal(t, []int32{3, 8, 8, 3, 3, 3, 5, 5, 5, 5, 5, 5}, epochs, client)
	}

	// A topic that comes back in the same membership has other epochs.
	c.OnCatalogue(&api.Catalogue{Index: 4, DeletedTopics: [][]byte{topicID(1)}})
	c.OnCatalogue(&api.Catalogue{Index: 5, Topics: []*api.Topic{
		{Id: topicID(1), Name: "alpha", Partitions: 12, LeaderEpochs: []int32{12, 8}},
	}})
	_, epochs = leadersOf(t, m, "")
	require.Equal(t, []int32{8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8}, epochs)
}

// TestMetadata_NodesStay: an agent more takes partitions from others, and no partition that stays gets another port.
func TestMetadata_NodesStay(t *testing.T) {
	c := catalogueOf(t)
	m := metadataOf(c, never(t), nil)
	before, _ := leadersOf(t, m, "zone=a")
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: &api.Membership{Version: 8, Members: []*api.Member{
		member(1, "a"), member(2, "a"), member(3, "b"), member(4, "b"), member(5, "a"),
	}}})
	after, _ := leadersOf(t, m, "zone=a")
	moved := 0
	for p := range before {
		if after[p]/10 == before[p]/10 {
			require.Equal(t, before[p], after[p], "partition %d", p)
		} else {
			moved++
		}
	}
	require.GreaterOrEqual(t, moved, 4)
	require.Less(t, moved, 12)
}

// BenchmarkViews_ScaleEvent is what an agent does when another comes or goes, with 100,000 partitions: it takes the change
// in, and works out and encodes all of one view.
func BenchmarkViews_ScaleEvent(b *testing.B) {
	const topics, partitions = 1000, 100
	full := &api.Catalogue{Index: 1, Full: true, Membership: &api.Membership{Version: 1}}
	for i := range topics {
		full.Topics = append(full.Topics, &api.Topic{
			Id: append(make([]byte, 14), byte(i>>8), byte(i)), Name: strconv.Itoa(i), Partitions: partitions,
			LeaderEpochs: []int32{partitions, 1},
		})
	}
	c := view.NewCatalogue()
	c.OnCatalogue(full)
	views := NewViews(&Zones{own: "a"})
	moved := slices.Repeat([]int32{6, 1}, topics*partitions/7)
	moved = append(moved, topics*partitions-7*(topics*partitions/7)+1)
	all := metadataRequest()
	all.Version = 12
	version := uint64(1)
	for b.Loop() {
		version++
		m := &api.Membership{Version: version}
		for i := range 6 + uint32(version%2) {
			m.Members = append(m.Members, member(i+1, "a"))
		}
		c.OnCatalogue(&api.Catalogue{Index: version, Membership: m, Moved: moved})
		s := c.Load()
		v := views.of(s, &edge.Request{Client: &edge.Client{Listener: "main"}})
		views.encodedTopics(all, s, v)
	}
}
