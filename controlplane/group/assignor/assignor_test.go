package assignor_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/group/assignor"
	"github.com/freshet-io/freshet/metadata/id"
)

func topic(n int) id.Topic { return id.Topic{byte(n >> 8), byte(n)} }

// random gives a group of up to ten members and six topics. Equal subscriptions if equal.
func random(r *rand.Rand, equal bool) assignor.Group {
	g := assignor.Group{Partitions: make(map[id.Topic]int32)}
	for n := range 1 + r.IntN(6) {
		g.Partitions[topic(n)] = int32(1 + r.IntN(12))
	}
	for i := range 1 + r.IntN(10) {
		m := assignor.Member{ID: fmt.Sprintf("m%02d", i)}
		for n := range len(g.Partitions) {
			if equal || r.IntN(3) > 0 {
				m.Topics = append(m.Topics, topic(n))
			}
		}
		if r.IntN(4) == 0 {
			m.Instance = fmt.Sprintf("i%02d", r.IntN(1000)*100+i)
		}
		g.Members = append(g.Members, m)
	}
	return g
}

// requireComplete: every partition of a subscribed topic has one owner, which subscribes to it, and nothing else is
// assigned.
func requireComplete(t *testing.T, g assignor.Group, a assignor.Assignment) {
	t.Helper()
	owners := make(map[id.TopicPartition]string)
	want := 0
	subscribed := make(map[id.Topic]bool)
	for _, m := range g.Members {
		require.True(t, slices.IsSortedFunc(a[m.ID], id.TopicPartition.Compare))
		for _, tp := range a[m.ID] {
			require.Contains(t, m.Topics, tp.Topic)
			require.Less(t, tp.Partition, g.Partitions[tp.Topic])
			require.Empty(t, owners[tp], "owned twice")
			owners[tp] = m.ID
		}
		for _, tp := range m.Topics {
			if !subscribed[tp] {
				subscribed[tp] = true
				want += int(g.Partitions[tp])
			}
		}
	}
	require.Len(t, owners, want)
	require.Len(t, a, len(g.Members))
}

func sizes(g assignor.Group, a assignor.Assignment) (least, most int) {
	least = 1 << 30
	for _, m := range g.Members {
		least, most = min(least, len(a[m.ID])), max(most, len(a[m.ID]))
	}
	return least, most
}

func with(g assignor.Group, a assignor.Assignment) assignor.Group {
	g.Members = slices.Clone(g.Members)
	for i := range g.Members {
		g.Members[i].Assigned = a[g.Members[i].ID]
	}
	return g
}

// moved counts partitions that left a member that still is there.
func moved(before assignor.Group, after assignor.Assignment) int {
	n := 0
	for _, m := range before.Members {
		mine, there := after[m.ID]
		for _, tp := range m.Assigned {
			if there && !slices.Contains(mine, tp) {
				n++
			}
		}
	}
	return n
}

func TestAssign_HoldsItsPromisesForRandomGroups(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		equal := seed%2 == 0
		g := random(r, equal)
		for _, name := range assignor.Names() {
			a, err := assignor.Assign(name, g)
			require.NoError(t, err)
			requireComplete(t, g, a)
			if name == assignor.Range {
				continue
			}
			if least, most := sizes(g, a); equal {
				require.LessOrEqual(t, most-least, 1, "seed %d", seed)
			}
			again, err := assignor.Assign(name, with(g, a))
			require.NoError(t, err)
			require.Equal(t, a, again, "seed %d: what is balanced stays", seed)
		}
	}
}

func TestAssign_UniformMovesNoMoreThanItMust(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 2))
		g := random(r, true)
		a, err := assignor.Assign(assignor.Uniform, g)
		require.NoError(t, err)
		before := with(g, a)

		left := before
		gone := r.IntN(len(left.Members))
		left.Members = slices.Delete(slices.Clone(left.Members), gone, gone+1)
		if len(left.Members) > 0 {
			b, err := assignor.Assign(assignor.Uniform, left)
			require.NoError(t, err)
			requireComplete(t, left, b)
			require.Zero(t, moved(left, b), "seed %d: a leave takes nothing from those who stay", seed)
		}

		joined := before
		joined.Members = append(slices.Clone(joined.Members), assignor.Member{ID: "m5x", Topics: g.Members[0].Topics})
		b, err := assignor.Assign(assignor.Uniform, joined)
		require.NoError(t, err)
		requireComplete(t, joined, b)
		least, most := sizes(joined, b)
		require.LessOrEqual(t, most-least, 1)
		require.Equal(t, len(b["m5x"]), moved(before, b), "seed %d: only what the new member gets moves", seed)
	}
}

func TestAssign_RangeKeepsTopicsCoPartitioned(t *testing.T) {
	g := assignor.Group{
		Partitions: map[id.Topic]int32{topic(1): 7, topic(2): 7},
		Members: []assignor.Member{
			{ID: "a", Topics: []id.Topic{topic(1), topic(2)}},
			{ID: "b", Topics: []id.Topic{topic(1), topic(2)}},
			{ID: "z", Instance: "0", Topics: []id.Topic{topic(1), topic(2)}},
		},
	}
	a, err := assignor.Assign(assignor.Range, g)
	require.NoError(t, err)
	numbers := func(member string, tp id.Topic) (out []int32) {
		for _, p := range a[member] {
			if p.Topic == tp {
				out = append(out, p.Partition)
			}
		}
		return out
	}
	for _, tp := range []id.Topic{topic(1), topic(2)} {
		require.Equal(t, []int32{0, 1, 2}, numbers("z", tp), "static members come first")
		require.Equal(t, []int32{3, 4}, numbers("a", tp))
		require.Equal(t, []int32{5, 6}, numbers("b", tp))
	}
}

func TestAssign_HeterogeneousBalancesOverlappingSubscriptions(t *testing.T) {
	g := assignor.Group{
		Partitions: map[id.Topic]int32{topic(1): 15, topic(2): 15},
		Members: []assignor.Member{
			{ID: "a", Topics: []id.Topic{topic(1)}},
			{ID: "b", Topics: []id.Topic{topic(1), topic(2)}},
			{ID: "c", Topics: []id.Topic{topic(2)}},
		},
	}
	a, err := assignor.Assign(assignor.Uniform, g)
	require.NoError(t, err)
	requireComplete(t, g, a)
	least, most := sizes(g, a)
	require.LessOrEqual(t, most-least, 2)
}

func TestAssign_TakesAPartitionOfTwoOwnersOnce(t *testing.T) {
	p := id.TopicPartition{Topic: topic(1)}
	for _, topics := range [][]id.Topic{{topic(1)}, {topic(1), topic(2)}} {
		g := assignor.Group{Partitions: map[id.Topic]int32{topic(1): 2, topic(2): 1}, Members: []assignor.Member{
			{ID: "a", Topics: topics, Assigned: []id.TopicPartition{p}},
			{ID: "b", Topics: []id.Topic{topic(1)}, Assigned: []id.TopicPartition{p, {Topic: topic(1), Partition: 9}}},
		}}
		a, err := assignor.Assign(assignor.Uniform, g)
		require.NoError(t, err)
		requireComplete(t, g, a)
		require.Contains(t, a["a"], p)
	}
}

func TestAssign_RefusesWhatItDoesNotKnow(t *testing.T) {
	_, err := assignor.Assign("sticky", assignor.Group{})
	require.ErrorIs(t, err, assignor.ErrUnknown)
	_, err = assignor.Assign(assignor.Range, assignor.Group{Members: []assignor.Member{{ID: "a", Topics: []id.Topic{topic(1)}}}})
	require.ErrorIs(t, err, assignor.ErrUnknownTopic)
	a, err := assignor.Assign(assignor.Uniform, assignor.Group{})
	require.NoError(t, err)
	require.Empty(t, a)
}

func BenchmarkAssign_200Members1000Partitions(b *testing.B) {
	g := assignor.Group{Partitions: map[id.Topic]int32{topic(1): 1000}}
	for i := range 200 {
		g.Members = append(g.Members, assignor.Member{ID: fmt.Sprintf("m%03d", i), Topics: []id.Topic{topic(1)}})
	}
	a, err := assignor.Assign(assignor.Uniform, g)
	require.NoError(b, err)
	g = with(g, a)
	g.Members = g.Members[1:]
	for b.Loop() {
		if _, err := assignor.Assign(assignor.Uniform, g); err != nil {
			b.Fatal(err)
		}
	}
}
