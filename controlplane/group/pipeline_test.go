package group

import (
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata"
)

// randomUpdate is one of those that the machines write: the kind changes with a head only.
func randomUpdate(rng *rand.Rand) *metadata.UpdateGroup {
	u := &metadata.UpdateGroup{Group: "g", Kind: metadata.GroupConsumer, Reset: rng.IntN(4) == 0}
	if rng.IntN(2) == 0 {
		u.Head = []byte{byte(rng.IntN(256))}
		if rng.IntN(3) == 0 {
			u.Kind = metadata.GroupClassic
		}
	}
	for _, id := range []string{"a", "b", "c"} {
		switch rng.IntN(3) {
		case 0:
			u.Members = append(u.Members, metadata.GroupMember{ID: id, Value: []byte{byte(rng.IntN(256))}})
		case 1:
			u.Members = append(u.Members, metadata.GroupMember{ID: id})
		}
	}
	return u
}

// Writes merged to one leave the state that they leave one after the other.
func TestMerge_IsBothInTurn(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		before, a, b := randomUpdate(rng), randomUpdate(rng), randomUpdate(rng)
		inTurn, merged := metadata.New(), metadata.New()
		inTurn.Apply(1, &metadata.Batch{Commands: []metadata.Command{before, a, b}}, nil, nil)
		merged.Apply(1, &metadata.Batch{Commands: []metadata.Command{before, merge(a, b)}}, nil, nil)
		want, _ := inTurn.Group("g")
		got, _ := merged.Group("g")
		require.Equal(t, maps.Collect(want.Members), maps.Collect(got.Members), "%+v then %+v", a, b)
		require.Equal(t, want.Head, got.Head)
		require.Equal(t, want.Kind, got.Kind)
		require.Equal(t, inTurn.Hash(), merged.Hash())
	}
}
