package metadata

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPartition_Forget compares the ranges with a set of ids: each that was forgotten is in them, and no other one is as long as
// few ranges are needed.
func TestPartition_Forget(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, ids := range []int64{100, 10_000, math.MaxInt64} {
		p, forgotten := new(partition), map[int64]bool{}
		exact := true
		for range 2000 {
			producerID := rng.Int64N(ids)
			if rng.IntN(2) == 0 && len(p.forgotten) > 0 {
				producerID = min(p.forgotten[rng.IntN(len(p.forgotten))].last, ids-2) + 1
			}
			p.forget(producerID)
			forgotten[producerID] = true
			exact = exact && len(p.forgotten) < maxForgottenRanges
			require.LessOrEqual(t, len(p.forgotten), maxForgottenRanges)
			require.True(t, slices.IsSortedFunc(p.forgotten, func(a, b idRange) int { return int(min(max(a.last+2-b.first, -1), 1)) }))
			for range 20 {
				asked := rng.Int64N(ids)
				_, got := p.forgottenAt(asked)
				require.True(t, got || !forgotten[asked])
				require.False(t, exact && got && !forgotten[asked])
			}
		}
		for producerID := range forgotten {
			_, ok := p.forgottenAt(producerID)
			require.True(t, ok)
		}
	}
}

// TestPartition_ForgetManyRanges: the nearest ranges are joined, and ids far from them stay unknown.
func TestPartition_ForgetManyRanges(t *testing.T) {
	p := new(partition)
	for i := range int64(maxForgottenRanges) {
		p.forget(1000 * i * i)
	}
	require.Len(t, p.forgotten, maxForgottenRanges)
	p.forget(math.MaxInt64)
	require.Len(t, p.forgotten, maxForgottenRanges)
	require.Equal(t, idRange{0, 1000}, p.forgotten[0])
	require.Equal(t, idRange{4000, 4000}, p.forgotten[1])
	require.Equal(t, idRange{math.MaxInt64, math.MaxInt64}, p.forgotten[maxForgottenRanges-1])
	p.forget(math.MaxInt64 - 1)
	require.Equal(t, idRange{math.MaxInt64 - 1, math.MaxInt64}, p.forgotten[maxForgottenRanges-1])
}
