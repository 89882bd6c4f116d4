package assign

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func somePlaces(r *rand.Rand, n int) []Agent {
	var agents []Agent
	for _, id := range someAgents(r, n) {
		agents = append(agents, Agent{ID: id, Ports: 1 + int32(id%4)})
	}
	return agents
}

// TestPlaces_Stable: no partition ranks another agent higher that has room, or has one that it ranks lower.
func TestPlaces_Stable(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 200 {
		var p placer
		agents, partitions := somePlaces(r, 1+r.IntN(9)), 1+r.Int32N(100)
		got := p.place(someTopic(r), partitions, agents)
		lowest := make([]uint64, len(agents)) // of those that an agent has, 0 if it has room
		for a := range agents {
			var ranks []uint64
			for i, at := range got {
				if int(at.Index) == a {
					ranks = append(ranks, rankOf(p.seeds[i], agents[a].ID))
				}
			}
			require.LessOrEqual(t, len(ranks), p.room)
			if len(ranks) == p.room {
				lowest[a] = slices.Min(ranks)
			}
		}
		for i, at := range got {
			mine := rankOf(p.seeds[i], agents[at.Index].ID)
			for a := range agents {
				other := rankOf(p.seeds[i], agents[a].ID)
				require.False(t, other > mine && other > lowest[a], "partition %d would rather be at %d, which would rather have it", i, a)
			}
			require.Less(t, at.Port, agents[at.Index].Ports)
		}
	}
}

// TestPlaces_UsePorts: one agent's partitions use its ports alike, and so do the topics of one partition.
func TestPlaces_UsePorts(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	one := []Agent{{ID: 5, Ports: 4}}
	counts := make([]int, 4)
	for _, at := range Places(someTopic(r), 40, one) {
		counts[at.Port]++
	}
	require.Equal(t, []int{10, 10, 10, 10}, counts)
	clear(counts)
	for range 1000 {
		counts[Places(someTopic(r), 1, one)[0].Port]++
	}
	require.Greater(t, slices.Min(counts), 200)
}

// TestPlaces_SixToSeven: of topics of any usual size, an agent more moves at most a seventh and a tenth, ports and all.
func TestPlaces_SixToSeven(t *testing.T) {
	r := rand.New(rand.NewPCG(15, 16))
	for _, partitions := range []int32{1, 2, 3, 6, 12, 24, 48, 50, 100, 288, 1000, 5000} {
		moved, all := 0, 0
		for all < 10_000 {
			topic, agents := someTopic(r), make([]Agent, 7)
			for i, id := range someAgents(r, 7) {
				agents[i] = Agent{ID: id, Ports: 4}
			}
			was, is := Places(topic, partitions, agents[:6]), Places(topic, partitions, agents)
			for p := range int(partitions) {
				if was[p] != is[p] { // an index is the same agent in both
					moved++
				}
			}
			all += int(partitions)
		}
		share := float64(moved) / float64(all)
		t.Logf("%d partitions: %.1f %% move", partitions, 100*share)
		require.Less(t, share, 1./7+0.1, "%d partitions", partitions)
	}
}

// TestPlaces_Golden: agents and control planes of neighbouring versions must come to the same places, so a change of them needs
// a version of its own.
func TestPlaces_Golden(t *testing.T) {
	for _, c := range []struct {
		partitions int32
		agents     int
		want       string
	}{{12, 5, "403300011001401010332021"}, {7, 7, "60531021300342"}, {30, 3, "201320210000200000130000200020112000102112210021121300111213"}} {
		r := rand.New(rand.NewPCG(17, 18))
		var got []byte
		for _, at := range Places(someTopic(r), c.partitions, somePlaces(r, c.agents)) {
			got = append(got, byte(at.Index)<<4|byte(at.Port))
		}
		require.Equal(t, c.want, hex.EncodeToString(got), fmt.Sprint(c.partitions, c.agents))
	}
}

func BenchmarkPlaces(b *testing.B) {
	for _, n := range []int{7, 100} {
		b.Run(fmt.Sprintf("%d agents", n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, 2))
			agents := somePlaces(r, n)
			topic := someTopic(r)
			for b.Loop() {
				Places(topic, 1000, agents)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/partition")
		})
	}
}
