package assign

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// expanded gives the epoch of each partition.
func expanded(e Epochs) []int32 {
	var out []int32
	for n, epoch := range e.Runs() {
		for range n {
			out = append(out, epoch)
		}
	}
	return out
}

// TestEpochs_AgainstSlices does the same to epochs and to a slice with one for each partition.
func TestEpochs_AgainstSlices(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 40 {
		var e Epochs
		var model []int32
		for epoch := range int32(20) {
			before, was := e, expanded(e)
			moved := make([]bool, len(model))
			for p := range moved {
				if moved[p] = r.IntN(3) == 0; moved[p] {
					model[p] = epoch
				}
			}
			e = e.Raise(moved, epoch)
			require.Equal(t, was, expanded(before), "epochs do not change")
			n := r.Int32N(6)
			e = append(Epochs{}, e...).Append(n, epoch)
			for range n {
				model = append(model, epoch)
			}
			require.Equal(t, model, expanded(e))
			require.EqualValues(t, len(model), e.Partitions())
			for p, want := range model {
				require.Equal(t, want, e.At(int32(p)))
			}
			require.EqualValues(t, -1, e.At(-1))
			require.EqualValues(t, -1, e.At(e.Partitions()))
			for i := 1; i < len(e); i++ {
				require.NotEqual(t, e[i-1].Epoch, e[i].Epoch, "runs are as long as can be")
			}
		}
	}
	require.Equal(t, Epochs{{End: 5, Epoch: 3}}, Uniform(5, 3))
}
