package cost

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedianRatio(t *testing.T) {
	of := func(ratios ...float64) (ps []pair) {
		for _, r := range ratios {
			ps = append(ps, pair{floor: Sample{CPU: 2, Wire: 1 << 30}, agent: Sample{CPU: 4 * r, Wire: 2 << 30}})
		}
		return ps
	}
	require.InDelta(t, 3, medianRatio(of(9, 1, 3)), 1e-9, "per GiB, and one outlier does not matter")
	require.InDelta(t, 2.5, medianRatio(of(9, 1, 3, 2)), 1e-9)
}
