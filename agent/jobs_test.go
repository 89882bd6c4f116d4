package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
)

func TestPartsWithin(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		bytes          int64
		size, inFlight int
	}{
		{0, objstore.MinPart, 1},
		{15*mib - 1, 15*mib/2 - 1, 1},
		{15 * mib, 5 * mib, 2},
		{20 * mib, 5 * mib, 3},
		{96 * mib, 24 * mib, 3},
		{256 * mib, 64 * mib, 3},
		{319 * mib, 64 * mib, 3},
		{1 << 40, 64 * mib, 4},
	} {
		size, inFlight := partsWithin(c.bytes)
		require.Equal(t, c.size, size, "%d bytes", c.bytes)
		require.Equal(t, c.inFlight, inFlight, "%d bytes", c.bytes)
	}
	budgets, err := divide(16 << 30)
	require.NoError(t, err)
	size, inFlight := partsWithin(budgets.jobs / 100 * mergePartsPercent)
	require.Equal(t, 64*mib, size)
	require.Equal(t, mostParts, inFlight)
	size, inFlight = partsWithin(budgets.jobs / 100 * cleanPartsPercent)
	require.Greater(t, inFlight, 1, "cleaning sends parts side by side too")
	require.LessOrEqual(t, int64(size*(inFlight+1)), budgets.jobs/100*cleanPartsPercent, "within its share")
}
