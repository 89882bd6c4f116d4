package controlplane

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/directory"
)

// registered returns the members as a replica sees them.
func registered(self string, others ...string) *members {
	m := &members{replica: self}
	all := []member{}
	for _, id := range others {
		all = append(all, member{id: id, address: id + ":7050"})
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

func TestLeaving(t *testing.T) {
	for name, waits := range map[string]bool{"loaded": false, "idle": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, end := context.WithCancel(t.Context())
				left, cancel := leaving(ctx, func() bool { return waits })
				end()
				synctest.Wait()
				require.Equal(t, !waits, left.Err() != nil)
				time.Sleep(leavePause)
				synctest.Wait()
				require.Error(t, left.Err())
				cancel()
				left, cancel = leaving(t.Context(), func() bool { return waits })
				cancel()
				require.Error(t, left.Err(), "it has ended by itself")
			})
		})
	}
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

// A thousand virtual clusters are refused for hours, and one is not. Each is tried less and less, and none is held up or forgotten.
func TestPlacement_RefusedOnesDoNotHoldUpOthers(t *testing.T) {
	const many = 1000
	tries := map[string]int{}
	ask := func(_ context.Context, _, clusterID string) error {
		tries[clusterID]++
		if clusterID == "late" {
			return nil
		}
		return errors.New("refused")
	}
	core, logged := observer.New(zap.InfoLevel)
	p := newPlacement(registered("r1", "r2"), nil, ask, zap.New(core), prometheus.NewRegistry())
	misplaced := map[string]*cluster{}
	for n := range many {
		misplaced[fmt.Sprint(n)] = &cluster{spec: &directory.Spec{ID: fmt.Sprint(n)}}
	}
	now := time.Now()
	pass := func(d time.Duration) {
		for end := now.Add(d); now.Before(end); now = now.Add(handOverPause) {
			if id := p.next(misplaced, now); id != "" {
				p.handOver(t.Context(), misplaced[id], member{id: "r2"}, now)
			}
		}
	}
	pass(time.Hour)
	misplaced["late"] = &cluster{spec: &directory.Spec{ID: "late"}}
	pass(2 * handOverPause)
	require.Equal(t, 1, tries["late"])
	delete(misplaced, "late")
	pass(2 * time.Hour)
	for n := range many {
		require.InDelta(t, 9, tries[fmt.Sprint(n)], 2)
	}
	require.Len(t, logged.FilterMessageSnippet("cannot take").All(), many, "one line for each")
	require.Len(t, p.returns, many)
	clear(misplaced)
	pass(2*maxReturnPause + handOverPause)
	require.Empty(t, p.returns)
}

// TestPlacement_WaitsForAReplicaThatRestarts: a better placed replica is away for a moment between two looks. It is handed nothing until it has been
// registered for settledAfter again.
func TestPlacement_WaitsForAReplicaThatRestarts(t *testing.T) {
	m := registered("r1", "r2")
	id := ""
	for n := 0; id == "" || m.placed(id)[0] != "r2"; n++ {
		id = fmt.Sprint("cluster-", n)
	}
	p := newPlacement(m, nil, nil, zap.NewNop(), prometheus.NewRegistry())
	now := time.Unix(1000, 0)
	for _, registration := range []int64{1, 2} {
		m.replicas.Store(&[]member{{id: "r2", address: "r2:7050", registration: registration}})
		for began := now; now.Sub(began) < settledAfter; now = now.Add(lookPause) {
			p.observe(now)
			_, ok := p.better(id, now)
			require.False(t, ok, "%s after registration %d", now.Sub(began), registration)
		}
		p.observe(now)
		to, ok := p.better(id, now)
		require.True(t, ok)
		require.Equal(t, registration, to.registration)
	}
}
