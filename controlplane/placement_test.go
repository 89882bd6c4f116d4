package controlplane

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// registered returns the members as a replica sees them.
func registered(self string, others ...string) *members {
	m := &members{replica: self}
	all := []member{}
	for _, id := range others {
		all = append(all, member{id, id + ":7050", ""})
	}
	m.replicas.Store(&all)
	return m
}

func TestMembers_PlaceClustersEvenly(t *testing.T) {
	const clusters = 3000
	best := map[string]int{}
	moved := 0
	for n := range clusters {
		id := fmt.Sprintf("cluster-%d", n)
		of := registered("r1", "r2", "r3").placed(id)
		require.Equal(t, of, registered("r3", "r1", "r2", "r2").placed(id), "all replicas agree")
		best[of[0]]++
		if now := registered("r1", "r2", "r3", "r4").placed(id)[0]; now != of[0] {
			require.Equal(t, "r4", now, "a new replica takes from others, and nothing else moves")
			moved++
		}
	}
	for id, n := range best {
		require.InDelta(t, clusters/3, n, clusters/20, id)
	}
	require.InDelta(t, clusters/4, moved, clusters/20)
}

func TestMembers_Turns(t *testing.T) {
	order := registered("r1", "r2", "r3").placed("id")
	turn := func(self, former string) time.Duration { return registered(self, "r1", "r2", "r3").turn("id", former) }
	require.Zero(t, turn(order[0], ""))
	require.Equal(t, claimPause, turn(order[1], "unknown"))
	require.Equal(t, 2*claimPause, turn(order[2], ""))
	require.Zero(t, turn(order[1], order[0]), "the former owner goes last")
	require.Equal(t, claimPause, turn(order[2], order[0]))
	require.Equal(t, 2*claimPause, turn(order[0], order[0]))
	require.Zero(t, registered("r1").turn("id", "r1"), "the only replica does not wait")
	var many []string
	for n := range 50 {
		many = append(many, fmt.Sprint(n))
	}
	require.LessOrEqual(t, registered("r1", many...).turn("id", "r1"), maxClaimRank*claimPause)
}
