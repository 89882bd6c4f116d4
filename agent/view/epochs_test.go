package view

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

// epochsOf gives the leader epochs of a topic's partitions as clients see them.
func epochsOf(s *Snapshot, name string) (out []int32) {
	t, _ := s.TopicByName(name)
	for p := range t.Partitions {
		out = append(out, t.LeaderEpoch(p, s.Version))
	}
	return out
}

func withEpochs(t *api.Topic, runs ...int32) *api.Topic {
	t.LeaderEpochs = runs
	return t
}

// TestCatalogue_Moved: a membership says by runs over all topics, in the order of their names, what takes its version.
func TestCatalogue_Moved(t *testing.T) {
	for _, c := range []struct {
		name  string
		moved []int32
		a, b  []int32
	}{
		{"none", []int32{6}, []int32{4, 4, 3}, []int32{4, 2, 2}},
		{"all", nil, []int32{9, 9, 9}, []int32{9, 9, 9}},
		{"the last", []int32{5}, []int32{4, 4, 3}, []int32{4, 2, 9}},
		{"the first", []int32{0, 1, 5}, []int32{9, 4, 3}, []int32{4, 2, 2}},
		{"over the border", []int32{2, 2, 2}, []int32{4, 4, 9}, []int32{9, 2, 2}},
		{"up to it", []int32{1, 2, 1, 1, 1}, []int32{4, 9, 9}, []int32{4, 9, 2}},
		{"an owner that does not say it, or nonsense", []int32{-3, 0, -1}, []int32{9, 9, 9}, []int32{9, 9, 9}},
		{"more than there is", []int32{1, 100, 7}, []int32{4, 9, 9}, []int32{9, 9, 9}},
	} {
		t.Run(c.name, func(t *testing.T) {
			catalogue := NewCatalogue()
			catalogue.ShowInternal() // which have no place in the runs
			catalogue.OnCatalogue(&api.Catalogue{Index: 1, Full: true, Membership: &api.Membership{Version: 4}, Topics: []*api.Topic{
				withEpochs(topicMessage(1, "b", 3), 1, 4, 2, 2), withEpochs(topicMessage(2, "a", 3), 2, 4, 1, 3),
			}})
			before := catalogue.Load()
			require.Equal(t, []int32{4, 4, 3}, epochsOf(before, "a"))
			require.Equal(t, []int32{4, 2, 2}, epochsOf(before, "b"))
			catalogue.OnCatalogue(&api.Catalogue{Index: 2, Membership: &api.Membership{Version: 9}, Moved: c.moved})
			after := catalogue.Load()
			require.Equal(t, c.a, epochsOf(after, "a"))
			require.Equal(t, c.b, epochsOf(after, "b"))
			require.Equal(t, []int32{4, 4, 3}, epochsOf(before, "a"), "a snapshot does not change")
			named, _ := after.TopicByName("b")
			same, _ := after.TopicByID(id.Topic{1})
			require.Same(t, named, same)
		})
	}
}

// TestCatalogue_EpochsNotTold: an owner that does not tell epochs, or not all, has the membership's version for all.
func TestCatalogue_EpochsNotTold(t *testing.T) {
	c := NewCatalogue()
	c.OnCatalogue(&api.Catalogue{Index: 1, Full: true, Membership: &api.Membership{Version: 4}, Topics: []*api.Topic{
		topicMessage(1, "a", 2), withEpochs(topicMessage(2, "b", 3), 2, 1), withEpochs(topicMessage(3, "c", 1), 1),
	}})
	c.OnCatalogue(&api.Catalogue{Index: 2, Membership: &api.Membership{Version: 5}})
	require.Equal(t, []int32{5, 5}, epochsOf(c.Load(), "a"))
	require.Equal(t, []int32{5, 5, 5}, epochsOf(c.Load(), "b"))
	require.Equal(t, []int32{5}, epochsOf(c.Load(), "c"))
	c.OnCatalogue(&api.Catalogue{Index: 3, Membership: &api.Membership{Version: 1 << 40}})
	require.Equal(t, []int32{math.MaxInt32, math.MaxInt32}, epochsOf(c.Load(), "a"))
	c.OnCatalogue(&api.Catalogue{Index: 4, Topics: []*api.Topic{withEpochs(topicMessage(1, "a", 2), 2, 7)}})
	require.Equal(t, []int32{7, 7}, epochsOf(c.Load(), "a"), "the state's version was raised")
}
