package controlplane

import (
	"math"
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata"
)

// TestConfig_MaxProducers: the default bound of producers is a share of the memory limit, which the virtual clusters share.
func TestConfig_MaxProducers(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	t.Cleanup(func() { debug.SetMemoryLimit(before) })
	two := Config{VirtualClusters: make([]VirtualCluster, 2)}
	for limit, want := range map[int64]int64{
		math.MaxInt64: metadata.MaxProducers, 16 << 30: (1 << 30) / metadata.ProducerBytes, 64 << 20: leastProducers,
	} {
		debug.SetMemoryLimit(limit)
		require.Equal(t, want, two.maxProducers(), "memory limit %d", limit)
	}
	two.MaxProducers = 5
	require.EqualValues(t, 5, two.maxProducers())
}
