package controlplane

import (
	"cmp"
	"fmt"
	"math"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Shares of the Go runtime's memory limit that live objects take. Each Spec.Memory bounds one virtual cluster, and nothing adds them up. From
// refuseHeap on, new virtual clusters are refused. The rest is for growth of the existing ones, second states of snapshots, and garbage. From
// shrinkHeap on, the bounds of the states fall, at leastHeap to leastRoom, and from stopHeap on to leastState.
const (
	refuseHeap = 0.7
	shrinkHeap = 0.8
	leastHeap  = 0.9
	stopHeap   = 0.95
)

// leastState is the bound in bytes to which a state can always grow, whatever else fills the memory: some 2,000 extents, or 500 partitions with
// records. For 200 virtual clusters it is 50 MiB, 6 % of the limit of a replica with 1 GiB.
const leastState = 256 << 10

// readHeap is the maximum age of a reading for the bounds of states. Each command compares with them.
const readHeap = 100 * time.Millisecond

// heapRoom compares the live objects of this process with its memory limit. Other replicas have other virtual clusters.
type heapRoom struct {
	read func() (live, limit uint64)  // replaced in tests
	last atomic.Pointer[heapFullness] // nil before the first
}

// heapFullness is a reading.
type heapFullness struct {
	at   time.Time
	full float64
}

func newHeapRoom(reg prometheus.Registerer) *heapRoom {
	h := &heapRoom{read: liveHeap}
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "freshet_controlplane_heap_fullness",
			Help: "Share of the Go runtime's memory limit that live objects take, as of the last garbage collection; from 0.7 on new virtual clusters are refused, from 0.8 on the states of those in etcd have less memory.",
		}, h.fullness),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "freshet_controlplane_state_room", Help: "Factor of the memory of each state of a virtual cluster in etcd; below 1 while the heap is nearly full.",
		}, h.room),
	)
	return h
}

// roomOf returns room for a state with a bound in bytes. The room is leastState at least.
func (h *heapRoom) roomOf(bound int64) func() float64 {
	least := min(1, float64(leastState)/float64(max(1, bound)))
	return func() float64 { return max(h.room(), least) }
}

// room returns the factor of the bounds of states that are large enough for it to leave leastState. All states have the same factor, so the fullest
// ones are refused first.
func (h *heapRoom) room() float64 {
	last := h.last.Load()
	if last == nil || time.Since(last.at) >= readHeap {
		last = &heapFullness{time.Now(), h.fullness()}
		h.last.Store(last)
	}
	return fall(last.full, shrinkHeap, leastHeap, stopHeap)
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
	refused := "new virtual clusters are refused"
	if full >= shrinkHeap {
		refused += ", and growth of large ones"
	}
	return fmt.Errorf("metadata and buffers use %.0f %% of this control plane's memory limit: %s", 100*full, refused)
}

// crowded returns the reason for which this replica refuses new virtual clusters, or nil.
func (c *ControlPlane) crowded() error { return cmp.Or(c.space.crowded(), c.heap.crowded()) }
