package classic

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// verify checks what holds of a group between any two calls.
func (g *Group) verify(t *testing.T) {
	t.Helper()
	require.Empty(t, g.out.Writes)
	require.Empty(t, g.out.Answers)
	joining, bytes, charged := 0, 0, 0
	for _, m := range g.roster.list {
		bytes += m.Weight()
		charged += Charge(m.Weight())
		require.Same(t, m, g.roster.byID[m.ID])
		require.NotContains(t, g.pending, m.ID)
		if m.join != nil {
			joining++
			require.Equal(t, PreparingRebalance, g.state, "a join waits in state %v", g.state)
		}
		if m.sync != nil {
			require.Equal(t, CompletingRebalance, g.state, "a sync waits in state %v", g.state)
			require.NotEqual(t, g.leader, m.ID, "the leader waits for itself")
		}
		if m.Instance != nil {
			require.Equal(t, m.ID, g.roster.instances[*m.Instance])
		}
	}
	require.Equal(t, joining, g.roster.joining)
	require.Equal(t, bytes, g.roster.bytes)
	if b := g.roster.budget; b != nil {
		require.EqualValues(t, charged, b.Used())
	}
	require.Len(t, g.roster.byID, len(g.roster.list))
	for _, id := range g.roster.instances {
		require.Contains(t, g.roster.byID, id)
	}
	g.verifyState(t)
}

func (g *Group) verifyState(t *testing.T) {
	t.Helper()
	switch g.state {
	case Empty:
		require.Empty(t, g.roster.list)
		require.Empty(t, g.leader)
	case PreparingRebalance:
		require.False(t, g.timers.join.due.IsZero(), "the join phase would never end")
	case CompletingRebalance:
		require.False(t, g.timers.sync.IsZero(), "syncs would be awaited for ever")
		fallthrough
	case Stable:
		require.NotEmpty(t, g.roster.list)
		require.Equal(t, len(g.roster.list), g.roster.votes[g.protocol], "not all members know the protocol")
		require.True(t, g.timers.join.due.IsZero())
	case Dead:
		require.Zero(t, g.Deadline())
		return
	}
	if len(g.roster.list) > 0 {
		require.Contains(t, g.roster.byID, g.leader, "one leader")
	}
	for id := range g.syncing {
		require.Contains(t, g.roster.byID, id)
	}
	require.Equal(t, g.timers.sync.IsZero(), len(g.syncing) == 0)
	for timer := range g.each {
		require.False(t, timer.due.Before(g.Deadline()), "a timer before the deadline")
	}
}

func sortedKeys(m map[string]time.Time) []string { return slices.Sorted(maps.Keys(m)) }
