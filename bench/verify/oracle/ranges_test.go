package oracle

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sets of intervals hold what plain sets hold, in as few intervals as there can be.
func TestRanges_LikeASet(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var r ranges
		set := map[int64]bool{}
		for range 60 {
			n := rng.Int64N(40)
			if rng.IntN(3) == 0 {
				require.Equal(t, set[n], r.remove(n), "seed %d", seed)
				delete(set, n)
				continue
			}
			to := n + rng.Int64N(6)
			r.add(n, to)
			for i := n; i < to; i++ {
				set[i] = true
			}
		}
		for n := range int64(60) {
			require.Equal(t, set[n], r.has(n), "seed %d, %d of %v", seed, n, r)
		}
		require.EqualValues(t, len(set), r.count(), "seed %d", seed)
		for i := 1; i < len(r); i++ {
			require.Less(t, r[i-1].to, r[i].from, "seed %d: %v", seed, r)
		}
	}
}
