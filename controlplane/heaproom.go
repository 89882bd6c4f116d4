package controlplane

import (
	"cmp"
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

// refuseHeap is the share of the Go runtime's memory limit that live objects take from which new virtual clusters are refused. Each Spec.Memory
// bounds one virtual cluster, and nothing adds them up. The rest is for growth of the existing ones, second states of snapshots, and garbage.
const refuseHeap = 0.7

// heapRoom compares the live objects of this process with its memory limit. Other replicas have other virtual clusters.
type heapRoom struct {
	read func() (live, limit uint64) // replaced in tests
}

func newHeapRoom(reg prometheus.Registerer) *heapRoom {
	h := &heapRoom{read: liveHeap}
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "freshet_controlplane_heap_fullness",
		Help: "Share of the Go runtime's memory limit that live objects take, as of the last garbage collection; from 0.7 on new virtual clusters are refused.",
	}, h.fullness))
	return h
}

// liveHeap returns the bytes of the objects that the last garbage collection left, and the runtime's memory limit, math.MaxInt64 for none.
func liveHeap() (live, limit uint64) {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64(), uint64(debug.SetMemoryLimit(-1))
}

func (h *heapRoom) fullness() float64 {
	live, limit := h.read()
	if limit == math.MaxInt64 {
		return 0
	}
	return float64(live) / float64(max(limit, 1))
}

// crowded returns an error with the fullness while this replica has no memory for further virtual clusters, else nil.
func (h *heapRoom) crowded() error {
	full := h.fullness()
	if full < refuseHeap {
		return nil
	}
	return fmt.Errorf("metadata and buffers use %.0f %% of this control plane's memory limit: new virtual clusters are refused", 100*full)
}

// crowded returns the reason for which this replica refuses new virtual clusters, or nil.
func (c *ControlPlane) crowded() error { return cmp.Or(c.space.crowded(), c.heap.crowded()) }
