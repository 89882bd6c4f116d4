package controlplane

import (
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
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
		{2000, 1000, "metadata and buffers use 200 % of this control plane's memory limit: new virtual clusters are refused, and large ones cannot grow"},
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

// TestHeapRoom_Room: the bounds of states fall as the heap fills, to leastState at least.
func TestHeapRoom_Room(t *testing.T) {
	h := newHeapRoom(prometheus.NewRegistry())
	const large, small = 32 << 20, 100 << 10
	for _, c := range []struct {
		live              uint64
		room              float64
		ofLarge, existing float64 // bytes
	}{
		{0, 1, large, large},
		{800, 1, large, large},
		{850, 0.5, large / 2, large},
		{900, 1.0 / 16, large / 16, large},
		{949, 1.0 / 16, large / 16, large},
		{950, 0, leastState, leastState},
		{5000, 0, leastState, leastState},
	} {
		h.last.Store(nil)
		h.read = func() (live, limit uint64) { return c.live, 1000 }
		require.InDelta(t, c.room, h.room(), 1e-9, "%+v", c)
		for bound, want := range map[int64]struct{ forNew, forExisting float64 }{ // bytes
			large: {c.ofLarge, c.existing},
			small: {small, small},
			1:     {1, 1},
		} {
			forNew, forExisting := h.roomOf(bound)()
			require.InDelta(t, want.forNew, forNew*float64(bound), 1, "%+v", c)
			require.InDelta(t, want.forExisting, forExisting*float64(bound), 1, "%+v", c)
		}
	}
}

// TestHeapRoom_ManyStates: the bounds of twenty states together are twice the memory. Commits to the large ones end before it is full, and small
// states go on. Once the heap has room, all do.
func TestHeapRoom_ManyStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const large, small, limit = 20, 5, 80 << 20
		h := newHeapRoom(prometheus.NewRegistry())
		other, bytes := uint64(0), make([]uint64, large+small)
		h.read = func() (uint64, uint64) {
			live := other
			for _, b := range bytes {
				live += b
			}
			return live, limit
		}
		ctx := t.Context()
		owners, commits := make([]*owner.Owner, large+small), make([]uint32, large+small)
		for i := range owners {
			const bound = 8 << 20
			owners[i], _ = startOwner(t, owner.Config{MaxBytes: bound, MemoryRoom: h.roomOf(bound), MaxFresh: 1 << 30})
			for _, c := range []metadata.Command{&metadata.CreateTopic{ID: id.Topic{1}, Name: "t", Partitions: 1000}, &metadata.OpenSession{Instance: "i"}} {
				_, _, err := owners[i].Propose(ctx, c)
				require.NoError(t, err)
			}
		}
		commitTo := func(i, sections int) error {
			var b commit.Builder
			b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: commits[i] + 1}, Acked: commits[i], Bytes: 1 << 30})
			for s := range sections {
				b.Section(commit.Section{Partition: id.TopicPartition{Topic: id.Topic{1}, Partition: int32(s)}, Position: uint32(s) * 61})
				b.Batch(commit.Batch{Records: 1, Bytes: 61, ProducerID: -1})
			}
			_, _, err := owners[i].Propose(ctx, &metadata.CommitBundle{Encoded: b.AppendTo(nil)})
			if err != nil {
				require.ErrorIs(t, err, owner.ErrOverloaded)
				return err
			}
			commits[i]++
			_, err = owners[i].Read(func(s *metadata.State) {
				l := s.Load()
				bytes[i] = uint64(l.MemoryBytes())
			})
			require.NoError(t, err)
			return nil
		}
		for refused := 0; refused < large; {
			refused = 0
			for i := range large {
				if commitTo(i, 1000) != nil {
					refused++
				}
			}
			time.Sleep(readHeap) // sleeps: the clock is fake, and garbage collections are frequent
		}
		require.Less(t, h.fullness(), leastHeap)
		require.Greater(t, h.fullness(), shrinkHeap)
		other = limit
		for i := range small {
			for range 100 {
				require.NoError(t, commitTo(large+i, 1), "a small state")
			}
		}
		require.Error(t, commitTo(0, 1))
		other = 0
		bytes[1] = 0 // its owner left
		time.Sleep(readHeap)
		require.NoError(t, commitTo(0, 1))
	})
}

// TestHeapRoom_ManyGroups: each of twenty states has one group. The bounds of existing groups together exceed the memory, but the groups stop growing
// before the memory is full.
func TestHeapRoom_ManyGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound, limit = 8 << 20, 60 << 20
		h := newHeapRoom(prometheus.NewRegistry())
		owners, bytes := make([]*owner.Owner, 20), make([]uint64, 20)
		h.read = func() (live, _ uint64) {
			for _, b := range bytes {
				live += b
			}
			return live, limit
		}
		grow := func(i, member int) error {
			_, _, err := owners[i].Propose(t.Context(), &metadata.UpdateGroup{
				Group: "g", Kind: metadata.GroupClassic, Members: []metadata.GroupMember{{ID: fmt.Sprint(member), Value: make([]byte, 64<<10)}},
			})
			if err != nil {
				require.ErrorIs(t, err, owner.ErrOverloaded)
			}
			_, _ = owners[i].Read(func(s *metadata.State) {
				l := s.Load()
				bytes[i] = uint64(l.MemoryBytes())
			})
			time.Sleep(readHeap) // sleeps: the clock is fake, and garbage collections are frequent
			return err
		}
		for i := range owners {
			owners[i], _ = startOwner(t, owner.Config{MaxBytes: bound, MemoryRoom: h.roomOf(bound)})
			require.NoError(t, grow(i, 0))
		}
		for member, refused := 1, 0; refused < len(owners); member++ {
			refused = 0
			for i := range owners {
				if grow(i, member) != nil {
					refused++
				}
			}
		}
		require.Greater(t, h.fullness(), leastHeap)
		require.Less(t, h.fullness(), 1.0)
	})
}
