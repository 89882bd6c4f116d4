package controlplane

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// TestHeapRoom_RefusesNewClusters: from 70 % of the memory limit on, and never without a limit. etcd's reason comes first.
func TestHeapRoom_RefusesNewClusters(t *testing.T) {
	reg := prometheus.NewRegistry()
	c := &ControlPlane{space: newEtcdSpace(nil, alone, zap.NewNop(), reg), heap: newHeapRoom(reg)}
	for _, of := range []struct {
		live, limit uint64
		reason      string
	}{
		{0, 1000, ""},
		{699, 1000, ""},
		{700, 1000, "metadata and buffers use 70 % of this control plane's memory limit: new virtual clusters are refused"},
		{2000, 1000, "metadata and buffers use 200 % of this control plane's memory limit: new virtual clusters are refused"},
		{math.MaxInt64, math.MaxInt64, ""},
	} {
		c.heap.read = func() (live, limit uint64) { return of.live, of.limit }
		err := c.crowded()
		if of.reason == "" {
			require.NoError(t, err, "%+v", of)
			continue
		}
		require.EqualError(t, err, of.reason)
	}
	c.heap.read = func() (live, limit uint64) { return 900, 1000 }
	c.space.bits.Store(math.Float64bits(0.8))
	require.ErrorContains(t, c.crowded(), "etcd uses 80 %")
}

// TestHeapRoom_ReadsLiveObjects: garbage does not count, and the limit is the runtime's.
func TestHeapRoom_ReadsLiveObjects(t *testing.T) {
	const size = 64 << 20
	runtime.GC()
	runtime.GC() // what pools of other tests hold is gone after the second one
	before, limit := liveHeap()
	require.EqualValues(t, debug.SetMemoryLimit(-1), limit)
	kept := make([]byte, size)
	runtime.GC()
	with, _ := liveHeap()
	require.InDelta(t, size, int64(with)-int64(before), size/4)
	runtime.KeepAlive(kept)
	runtime.GC()
	after, _ := liveHeap()
	require.InDelta(t, 0, int64(after)-int64(before), size/4)
}
