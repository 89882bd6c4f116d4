package assign

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func someTopic(r *rand.Rand) (t [16]byte) {
	for i := range t {
		t[i] = byte(r.Uint32())
	}
	return t
}

func someAgents(r *rand.Rand, n int) []uint32 {
	var agents []uint32
	for i := range n {
		agents = append(agents, uint32(i)*7+1)
	}
	r.Shuffle(n, func(i, j int) { agents[i], agents[j] = agents[j], agents[i] })
	return agents
}

// named gives the agents themselves instead of their indexes.
func named(owners []int32, agents []uint32) []uint32 {
	var out []uint32
	for _, o := range owners {
		out = append(out, agents[o])
	}
	return out
}

func TestPartitions_Balance(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		partitions, n := 1+r.Int32N(200), 1+r.IntN(20)
		counts := make([]int, n)
		for _, o := range Partitions(someTopic(r), partitions, someAgents(r, n)) {
			counts[o]++
		}
		require.LessOrEqual(t, slices.Max(counts), (int(partitions)+n-1)/n)
	}
}

func TestPartitions_DependsOnTheMembershipAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		topic, agents := someTopic(r), someAgents(r, 1+r.IntN(20))
		shuffled := slices.Clone(agents)
		r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		require.Equal(t, named(Partitions(topic, 50, agents), agents), named(Partitions(topic, 50, shuffled), shuffled))
	}
}

// TestPartitions_Movement: with one agent more or less, not much more moves than has to.
func TestPartitions_Movement(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	const partitions = 240
	for n := 2; n <= 16; n++ {
		moved, rounds := 0, 20
		for range rounds {
			topic, agents := someTopic(r), someAgents(r, n+1)
			with := named(Partitions(topic, partitions, agents), agents)
			without := named(Partitions(topic, partitions, agents[:n]), agents[:n])
			for p := range with {
				if with[p] != without[p] {
					moved++
				}
			}
		}
		has := float64(partitions) / float64(n+1)
		require.Less(t, float64(moved)/float64(rounds), 3*has, "%d agents", n)
	}
}

func TestPartitions_SmallTopicsSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	agents := someAgents(r, 10)
	counts := make([]int, len(agents))
	for range 1000 {
		counts[Partitions(someTopic(r), 1, agents)[0]]++
	}
	require.Greater(t, slices.Min(counts), 50)
	require.Less(t, slices.Max(counts), 150)
}

func TestKey(t *testing.T) {
	require.EqualValues(t, -1, Key(0, "group", nil))
	agents := []uint32{1, 2, 3, 4, 5}
	counts := make([]int, len(agents))
	for i := range 1000 {
		name := string(rune('a'+i%26)) + string(rune('a'+i/26))
		owner := Key(0, name, agents)
		counts[owner]++
		if agents[owner] != 5 { // who does not belong to the one that leaves stays
			require.Equal(t, owner, Key(0, name, agents[:4]))
		}
	}
	require.Greater(t, slices.Min(counts), 120)
	require.Nil(t, Partitions([16]byte{}, 3, nil))
}
