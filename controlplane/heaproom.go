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

// Shares of the Go runtime's memory limit that live objects take, at which this replica acts. Spec.Memory bounds each virtual cluster, but the sum of
// these bounds may exceed the limit. From refuseHeap on, new virtual clusters are refused. The rest is for growth of the existing ones, second states
// of snapshots, and garbage. From shrinkHeap on, the memory bounds of states fall: to the factor leastRoom at leastHeap, and to leastState from
// stopHeap on. The bounds of existing groups fall only at stopHeap, since their consumers must be able to restart.
const (
	refuseHeap = 0.7
	shrinkHeap = 0.8
	leastHeap  = 0.9
	stopHeap   = 0.95
)

// leastState is the size in bytes to which each state can grow even if the memory is full: some 2,000 extents, or 500 partitions with
// records. For 200 virtual clusters it is 50 MiB, 6 % of the limit of a replica with 1 GiB.
const leastState = 256 << 10

// readHeap is the maximum age of the reading that room uses. room is called for each command, too often for a reading each.
const readHeap = 100 * time.Millisecond

// heapRoom compares the live objects of this process with its memory limit. Unlike etcdSpace, each replica has a fullness of its own.
type heapRoom struct {
	read func() (live, limit uint64)  // replaced in tests
	last atomic.Pointer[heapFullness] // nil before the first
}

// heapFullness is a reading of heapRoom.fullness.
type heapFullness struct {
	at   time.Time
	full float64
}

func newHeapRoom(reg prometheus.Registerer) *heapRoom {
	h := &heapRoom{read: liveHeap}
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "freshet_controlplane_heap_fullness",
			Help: "Share of the Go runtime's memory limit that live objects take, as of the last garbage collection; from 0.7 on new virtual clusters are refused, from 0.8 on the memory bounds of virtual clusters in etcd fall, from 0.95 on those of existing groups too.",
		}, h.fullness),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "freshet_controlplane_state_room", Help: "Factor of the memory bound of each virtual cluster in etcd; below 1 while the heap is nearly full.",
		}, h.room),
	)
	return h
}

// roomOf returns the owner.Config.MemoryRoom of a state with a bound in bytes. With both factors, the state has at least leastState, or bound if that is
// less. The bounds of all existing groups together may exceed the memory, so from stopHeap on their growth ends as well.
func (h *heapRoom) roomOf(bound int64) func() (forNew, forExisting float64) {
	least := min(1, float64(leastState)/float64(max(1, bound)))
	return func() (forNew, forExisting float64) {
		room := h.room()
		if room == 0 { // from stopHeap on
			return least, least
		}
		return max(room, least), 1
	}
}

// room returns the factor of the bounds of all states, before roomOf raises it for small ones. All states have the same factor, so the fullest ones
// are refused first.
func (h *heapRoom) room() float64 {
	last := h.last.Load()
	if last == nil || time.Since(last.at) >= readHeap {
		last = &heapFullness{time.Now(), h.fullness()}
		h.last.Store(last)
	}
	return roomAt(last.full, shrinkHeap, leastHeap, stopHeap)
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
		refused += ", and large ones cannot grow"
	}
	return fmt.Errorf("metadata and buffers use %.0f %% of this control plane's memory limit: %s", 100*full, refused)
}

// crowded returns the reason for which this replica refuses new virtual clusters, or nil.
func (c *ControlPlane) crowded() error { return cmp.Or(c.space.crowded(), c.heap.crowded()) }
