package metadata

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/id"
)

// Extents of trims and deleted topics wait for Ticks, also in a state that a snapshot brought. Load has them until then.
func TestTick_CleanupBacklog(t *testing.T) {
	const partitions, commits = 1000, 6
	l := newLoad(partitions, partitions, partitions, 1)
	s := l.state()
	index := s.Index()
	apply := func(c Command) {
		index++
		require.NoError(t, s.Apply(index, &Batch{Now: 1_700_000_000_000, Commands: []Command{c}}, nil, nil)[0].Err)
	}
	for range commits {
		apply(&CommitBundle{Encoded: l.commit()})
	}
	require.False(t, s.CleaningUp())
	require.Zero(t, s.CleanupExtents())

	const perTopic = partitions / benchTopics
	trims := &TrimPartitions{}
	for i := range int32(perTopic) {
		trims.Trims = append(trims.Trims, Trim{Partition: id.TopicPartition{Topic: l.topic(0), Partition: i}, Offset: -1})
	}
	apply(trims)
	trimmed := s.CleanupExtents()
	require.EqualValues(t, commits*perTopic, trimmed)
	for i := range benchTopics - 1 {
		apply(&DeleteTopic{ID: l.topic(i + 1)})
	}
	want := trimmed + commits*(partitions-perTopic)
	require.Greater(t, want, int64(cleanupExtents))
	for ticks := 0; want > 0; ticks++ {
		require.True(t, s.CleaningUp())
		require.Equal(t, want, s.CleanupExtents())
		frozen, restored := s.snapshot(), restore(t, s)
		require.True(t, restored.CleaningUp())
		require.Equal(t, want, restored.CleanupExtents())
		require.Equal(t, want, s.Load().Extents)
		apply(&Tick{})
		require.Equal(t, want, frozen.CleanupExtents())
		want = max(0, want-cleanupExtents)
		require.Less(t, ticks, 2)
	}
	require.False(t, s.CleaningUp())
	require.Zero(t, s.CleanupExtents())
	require.False(t, restore(t, s).CleaningUp())
}
