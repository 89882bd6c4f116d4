package kafka

import (
	"math"
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

// TestMetadata_Epochs: the epoch of all partitions, in all views, is the version of the membership, up to 31 bits.
func TestMetadata_Epochs(t *testing.T) {
	c := catalogueOf(t)
	m := metadataOf(c, never(t), nil)
	members := []*api.Member{member(1, "a"), member(2, "a"), member(3, "b"), member(4, "b"), member(5, "b")}
	for _, version := range []uint64{8, math.MaxInt32, 1 << 40} {
		c.OnCatalogue(&api.Catalogue{Index: 3, Membership: &api.Membership{Version: version, Members: members}})
		for _, client := range []string{"", "zone=a", "zone=b", "zone=nowhere"} {
			_, epochs := leadersOf(t, m, client)
			require.Equal(t, slices.Repeat([]int32{int32(min(version, math.MaxInt32))}, 12), epochs, client)
		}
	}
}

// TestFetch_ResentAfterAScaleEvent prints what a consumer sends anew when the membership changes: with another leader epoch,
// a fetch session resends each partition.
func TestFetch_ResentAfterAScaleEvent(t *testing.T) {
	const topics, partitions = 100, 100
	fetched := kmsg.NewPtrFetchRequest()
	fetched.SetVersion(17)
	for i := range topics {
		f := kmsg.NewFetchRequestTopic()
		f.TopicID = [16]byte{15: byte(i)}
		for p := range int32(partitions) {
			fp := kmsg.NewFetchRequestTopicPartition()
			fp.Partition, fp.CurrentLeaderEpoch, fp.PartitionMaxBytes = p, 8, 1<<20
			f.Partitions = append(f.Partitions, fp)
		}
		fetched.Topics = append(fetched.Topics, f)
	}
	t.Logf("%d partitions: Fetch %d bytes", topics*partitions, len(fetched.AppendTo(nil)))
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
		})
	}
	c := view.NewCatalogue()
	c.OnCatalogue(full)
	views := NewViews(&Zones{own: "a"})
	all := metadataRequest()
	all.Version = 12
	version := uint64(1)
	for b.Loop() {
		version++
		m := &api.Membership{Version: version}
		for i := range 6 + uint32(version%2) {
			m.Members = append(m.Members, member(i+1, "a"))
		}
		c.OnCatalogue(&api.Catalogue{Index: version, Membership: m})
		s := c.Load()
		v := views.of(s, &edge.Request{Client: &edge.Client{Listener: "main"}})
		views.encodedTopics(all, s, v)
	}
}
