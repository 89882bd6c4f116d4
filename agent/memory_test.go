package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDivide(t *testing.T) {
	b, err := divide(1000 << 20)
	require.NoError(t, err)
	require.Equal(t, budgets{
		live: 400 << 20, catchUp: 100 << 20, slabs: 180 << 20, produceFrames: 60 << 20, recoded: 10 << 20, otherFrames: 20 << 20, unsent: 100 << 20,
		jobs: 30 << 20,
	}, b)
	require.Equal(t, int64(250<<20), b.slabs+b.produceFrames+b.recoded, "write buffers are 25 % of the limit")
	require.LessOrEqual(t, b.live+b.catchUp+b.slabs+b.produceFrames+b.recoded+b.otherFrames+b.unsent+b.jobs, int64(900<<20),
		"at least a tenth is left for everything else")

	_, err = divide(minMemory - 1)
	require.ErrorContains(t, err, "below the least")
}
