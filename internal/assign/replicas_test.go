package assign

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// someView makes a view of zones with one to three agents each, of one to four ports.
func someView(r *rand.Rand) View {
	zones, v := 1+r.IntN(4), View{Home: r.IntN(3) > 0}
	named, next := r.IntN(2) == 0, int32(1)
	var all Group
	for z := range zones {
		g := Group{Zone: fmt.Sprint("z", z)}
		for range 1 + r.IntN(3) {
			nodes := make([]Node, 1+r.IntN(4))
			for i := range nodes {
				nodes[i] = Node{ID: next, Zone: g.Zone}
				next++
			}
			g.Add(uint32(next), nodes)
			all.Add(uint32(next), nodes)
		}
		switch {
		case v.Home && z == 0:
			v.Own = g
		case named:
			v.Others = append(v.Others, g)
		}
	}
	if !v.Home {
		v.Own = all
	}
	for i := range r.Int32N(3) {
		if named {
			g := Group{Zone: fmt.Sprint("gone", i)}
			g.Add(uint32(FirstStandIn-i), []Node{{ID: FirstStandIn - i, Zone: g.Zone}})
			v.StandIns = append(v.StandIns, g)
		}
	}
	return v
}

// Replicas are distinct, as many as the factor where the zones of the partition have that many nodes, and their zones are those of factor 1.
func TestReplicas_FactorAddsNodesNotZones(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		v, topic, partitions := someView(r), someTopic(r), 1+r.Int32N(20)
		zoneOf, inZone := map[int32]string{}, map[string]int{}
		for _, n := range v.Shown() {
			require.NotContains(t, zoneOf, n.ID)
			zoneOf[n.ID] = n.Zone
			inZone[n.Zone]++
		}
		zonesOf := func(nodes []int32) (zones []string) {
			for _, n := range nodes {
				if !slices.Contains(zones, zoneOf[n]) {
					zones = append(zones, zoneOf[n])
				}
			}
			return zones
		}
		one := v.Replicas(topic, partitions, 1)
		leaders := Places(topic, partitions, v.Own.Agents)
		for factor := 1; factor <= 16; factor++ {
			replicas := v.Replicas(topic, partitions, factor)
			for p := range partitions {
				least, of := one.Of(p), replicas.Of(p)
				require.Equal(t, v.Own.Nodes[leaders[p].Index][leaders[p].Port].ID, of[0])
				require.Equal(t, of[0], replicas.Leader(p))
				require.Equal(t, least, of[:len(least)], "seed %d factor %d", seed, factor)
				require.Equal(t, zonesOf(least), zonesOf(of), "seed %d factor %d", seed, factor)
				require.Len(t, zonesOf(least), len(least), "one node per zone")
				there := 0
				for _, zone := range zonesOf(least) {
					there += inZone[zone]
				}
				require.Len(t, of, max(len(least), min(factor, there)), "seed %d factor %d", seed, factor)
				require.Len(t, slices.Compact(slices.Sorted(slices.Values(of))), len(of), "distinct")
			}
		}
	}
}

// Where agents have as many ports as a topic's factor, the replicas of a partition change with its leader alone.
func TestReplicas_StayWithTheLeader(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	topic, stayed := someTopic(r), 0
	var v View
	v.Home = true
	for agent := range int32(8) {
		nodes := make([]Node, 4)
		for i := range nodes {
			nodes[i] = Node{ID: 4*agent + int32(i), Zone: "a"}
		}
		before := v.Replicas(topic, 50, 4)
		v.Own.Add(uint32(agent+1), nodes)
		after := v.Replicas(topic, 50, 4)
		for p := range int32(50) {
			require.Len(t, after.Of(p), 4)
			if before.Leader(p) == after.Leader(p) {
				require.Equal(t, before.Of(p), after.Of(p))
				stayed++
			}
		}
	}
	require.Greater(t, stayed, 100)
}

func TestReplicas_WithoutAgents(t *testing.T) {
	var v View
	replicas := v.Replicas([16]byte{}, 3, 3)
	require.Empty(t, replicas.Of(2))
	require.EqualValues(t, NoNode, replicas.Leader(2))
	require.Empty(t, v.Shown())
}

// BenchmarkReplicas_Factor compares the cost of factors 1 and 16 for a client without a zone: 300 agents of four ports in three zones.
func BenchmarkReplicas_Factor(b *testing.B) {
	v := View{}
	for a := range int32(300) {
		nodes := make([]Node, 4)
		for i := range nodes {
			nodes[i] = Node{ID: 4*a + int32(i) + 1, Zone: fmt.Sprintf("eu-central-1%c", 'a'+a/100)}
		}
		v.Own.Add(uint32(a+1), nodes)
	}
	for _, factor := range []int{1, 16} {
		b.Run(fmt.Sprint("factor=", factor), func(b *testing.B) {
			for b.Loop() {
				v.Replicas([16]byte{1}, 100_000, factor)
			}
		})
	}
}
