package view

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata/id"
)

func topicMessage(n byte, name string, partitions int32) *api.Topic {
	t := id.Topic{n}
	return &api.Topic{Id: t[:], Name: name, Partitions: partitions, Configs: map[string]string{"n": name}}
}

func names(s *Snapshot) []string {
	var out []string
	for t := range s.Topics() {
		out = append(out, t.Name)
	}
	return out
}

func TestCatalogue_Full(t *testing.T) {
	c := NewCatalogue()
	changed := c.Changed()
	c.OnWelcome(&api.Welcome{ClusterId: "abc", Session: 7})
	c.OnCatalogue(&api.Catalogue{
		Index: 7, Full: true,
		Topics: []*api.Topic{topicMessage(2, "b", 3), topicMessage(1, "a", 1)},
		Membership: &api.Membership{Version: 4, Members: []*api.Member{
			{Session: 9, Zone: "z2", NodeIds: []int32{5}, Endpoints: []*api.Endpoint{{Host: "h", Port: 9092}}},
			{Session: 3, Zone: "z1", NodeIds: []int32{1}, PeerAddress: "h:7080"},
		}},
		BrokerConfigs: map[string]string{"log.retention.ms": "5"},
	})
	<-changed
	<-c.Ready()
	s := c.Load()
	require.Equal(t, "abc", s.ClusterID)
	require.Equal(t, id.Session(7), s.Session)
	require.Equal(t, uint64(7), s.Index)
	require.Equal(t, uint64(4), s.Version)
	require.Equal(t, []string{"a", "b"}, names(s))
	require.Equal(t, id.Session(3), s.Members[0].Session)
	require.Equal(t, "h:7080", s.Members[0].Peer)
	require.Empty(t, s.Members[1].Peer)
	require.Equal(t, []Endpoint{{Host: "h", Port: 9092}}, s.Members[1].Endpoints)
	require.Equal(t, "5", s.BrokerConfigs["log.retention.ms"])
	b, ok := s.TopicByName("b")
	require.True(t, ok)
	same, ok := s.TopicByID(id.Topic{2})
	require.True(t, ok)
	require.Same(t, b, same)
}

func TestCatalogue_Deltas(t *testing.T) {
	c := NewCatalogue()
	c.OnCatalogue(&api.Catalogue{Index: 1, Full: true, Topics: []*api.Topic{topicMessage(1, "a", 1), topicMessage(2, "b", 1)}})
	before := c.Load()

	// "a" is deleted and created again under a new id, in one message.
	one := id.Topic{1}
	c.OnCatalogue(&api.Catalogue{
		Index: 2, DeletedTopics: [][]byte{one[:]},
		Topics:     []*api.Topic{topicMessage(3, "a", 5), topicMessage(2, "b", 2)},
		Membership: &api.Membership{Version: 2},
	})
	after := c.Load()
	require.Equal(t, []string{"a", "b"}, names(before), "a snapshot does not change")
	old, _ := before.TopicByName("a")
	require.Equal(t, id.Topic{1}, old.ID)
	a, _ := after.TopicByName("a")
	require.Equal(t, id.Topic{3}, a.ID)
	require.Equal(t, int32(5), a.Partitions)
	_, ok := after.TopicByID(id.Topic{1})
	require.False(t, ok)
	require.Equal(t, 2, after.TopicCount())
	require.Equal(t, uint64(2), after.Index)

	// The deletion of the old id, told late, leaves the new topic of that name alone.
	c.OnCatalogue(&api.Catalogue{Index: 3, DeletedTopics: [][]byte{one[:]}})
	_, ok = c.Load().TopicByName("a")
	require.True(t, ok)
	require.Equal(t, uint64(2), c.Load().Version)

	// A full one drops what it does not name.
	c.OnCatalogue(&api.Catalogue{Index: 9, Full: true, Topics: []*api.Topic{topicMessage(4, "z", 1)}})
	require.Equal(t, []string{"z"}, names(c.Load()))
}

type proberFunc func(ctx context.Context) (uint64, error)

func (f proberFunc) Fresh(ctx context.Context) (uint64, error) { return f(ctx) }

func TestCatalogue_Fresh(t *testing.T) {
	c := NewCatalogue()
	s, err := c.Fresh(t.Context(), proberFunc(func(context.Context) (uint64, error) {
		// The stream delivers what the stamp covers first.
		c.OnCatalogue(&api.Catalogue{Index: 5, Full: true, Topics: []*api.Topic{topicMessage(1, "new", 1)}})
		return 5, nil
	}))
	require.NoError(t, err)
	_, ok := s.TopicByName("new")
	require.True(t, ok)

	away := errors.New("no owner")
	_, err = c.Fresh(t.Context(), proberFunc(func(context.Context) (uint64, error) { return 0, away }))
	require.ErrorIs(t, err, away)
}

// TestCatalogue_InternalWhileUsed: each internal topic is shown while the owner says so.
func TestCatalogue_InternalWhileUsed(t *testing.T) {
	c := NewCatalogue()
	c.ShowInternal()
	yes, no := true, false
	for i, tc := range []struct {
		full                  bool
		offsets, transactions *bool
		want                  []string
	}{
		{true, &no, &no, nil},
		{false, &yes, &no, []string{internaltopic.Offsets.Name}},
		{false, nil, nil, []string{internaltopic.Offsets.Name}},
		{false, nil, &yes, []string{internaltopic.Offsets.Name, internaltopic.Transactions.Name}},
		{false, &no, &yes, []string{internaltopic.Transactions.Name}},
		{true, &yes, &no, []string{internaltopic.Offsets.Name}},
	} {
		before := c.Load()
		had := before.TopicCount()
		c.OnCatalogue(&api.Catalogue{Index: uint64(i + 1), Full: tc.full, OffsetsTopic: tc.offsets, TransactionsTopic: tc.transactions})
		require.Equal(t, had, before.TopicCount(), "a snapshot does not change")
		var shown []string
		for _, topic := range internaltopic.All() {
			if byName, ok := c.Load().TopicByName(topic.Name); ok {
				require.True(t, byName.Internal)
				shown = append(shown, topic.Name)
			}
			_, byID := c.Load().TopicByID(topic.ID)
			require.Equal(t, slices.Contains(tc.want, topic.Name), byID)
		}
		require.Equal(t, tc.want, shown, "%d", i)
	}
}

// TestCatalogue_ShowInternal: an older owner names no internal topics. Both are in every full catalogue, unless the owner has a topic of the
// name.
func TestCatalogue_ShowInternal(t *testing.T) {
	c := NewCatalogue()
	c.ShowInternal()
	for range 2 {
		c.OnCatalogue(&api.Catalogue{Index: 1, Full: true, Topics: []*api.Topic{topicMessage(1, "a", 3)}})
		require.Equal(t, 3, c.Load().TopicCount())
		for _, topic := range internaltopic.All() {
			byName, ok := c.Load().TopicByName(topic.Name)
			require.True(t, ok && byName.Internal && byName.Partitions == internaltopic.Partitions)
			byID, _ := c.Load().TopicByID(topic.ID)
			require.Same(t, byName, byID)
		}
	}
	c.OnCatalogue(&api.Catalogue{Index: 2, Full: true, Topics: []*api.Topic{topicMessage(1, internaltopic.Offsets.Name, 3)}})
	own, _ := c.Load().TopicByName(internaltopic.Offsets.Name)
	require.False(t, own.Internal)
}

// A topic of the owner with the name of an internal topic hides it (setInternal), for as long as it is there: the owner's own list
// (admin.shownTopic, group.catalogue) shows the internal one again when the other was deleted.
func TestCatalogue_InternalTopicComesBack(t *testing.T) {
	c, yes := NewCatalogue(), true
	c.ShowInternal()
	c.OnCatalogue(&api.Catalogue{Index: 1, Full: true, OffsetsTopic: &yes})
	other := topicMessage(9, internaltopic.Offsets.Name, 1)
	c.OnCatalogue(&api.Catalogue{Index: 2, Topics: []*api.Topic{other}}) // freshet topic undelete --as __consumer_offsets
	c.OnCatalogue(&api.Catalogue{Index: 3, DeletedTopics: [][]byte{other.Id}})
	_, ok := c.Load().TopicByID(internaltopic.Offsets.ID)
	require.True(t, ok)
	_, ok = c.Load().TopicByName(internaltopic.Offsets.Name)
	require.True(t, ok)
}
