package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata/id"
)

// Groups commit offsets of internal topics, which the state does not have. These offsets survive Ticks and snapshots, appear in reads and in
// the log of offsets, and can be deleted.
func TestOffsets_OfInternalTopics(t *testing.T) {
	s := newMachine()
	at := func(partition int32) id.TopicPartition {
		return id.TopicPartition{Topic: internaltopic.Offsets.ID, Partition: partition}
	}
	commit := func(partition int32) error {
		r := s.Apply(s.index+1, &Batch{Now: 1000, Commands: []Command{&CommitOffsets{Group: "g", Offsets: []OffsetCommit{
			{Partition: at(partition), Offset: 7, LeaderEpoch: -1, ExpiresMs: -1},
		}}}}, nil, nil)
		require.NoError(t, r[0].Err)
		return r[0].Value.([]error)[0]
	}
	require.ErrorIs(t, commit(-1), ErrUnknownPartition)
	require.ErrorIs(t, commit(internaltopic.Partitions), ErrUnknownPartition)
	require.NoError(t, commit(49))
	applied(t, s, 2000, &Tick{})
	applied(t, s, 3000, &Tick{})
	for range 2 {
		o, ok := s.Offset("g", at(49))
		require.True(t, ok)
		require.EqualValues(t, 7, o.Offset)
		committed, pending := s.HasOffsets("g")
		require.True(t, committed && !pending)
		var logged []string
		s.LoggedOffsets("g", func(o *LoggedOffset) bool { logged = append(logged, o.Topic); return true })
		require.Equal(t, []string{"__consumer_offsets"}, logged)
		s = restore(t, s)
	}
	applied(t, s, 4000, &DeleteOffsets{Group: "g", Partitions: []id.TopicPartition{at(49)}})
	_, ok := s.Offset("g", at(49))
	require.False(t, ok)
}
