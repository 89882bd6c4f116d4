package writer

import (
	"context"
	"slices"
	"time"

	"github.com/freshet-io/freshet/agent/slab"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// entryOverhead is what one batch's bookkeeping costs, bytes; it is charged to the write buffers.
	entryOverhead = 128
	// ownSlabShare: a batch larger than this part of a slab gets memory of its own rather than ending the current
	// slab early, so that at most this part of a slab is wasted.
	ownSlabShare = 4
)

// entry is one batch of a bundle.
type entry struct {
	bytes    []byte // in a slab; nil once the bundle's memory is gone
	meta     commit.Batch
	owner    *Produce
	stamp    *view.Stamp // of batches that need one
	base     int64       // base offset once accepted; -1 before and otherwise
	position uint32      // in the object, once laid out
	index    int32       // of the batch in its Produce
	next     int32       // the partition's next entry in the bundle, -1 if none
}

// group is one partition's batches of a bundle, in order of arrival; it becomes one section.
type group struct {
	partition   id.TopicPartition
	first, last int32 // entries
}

// gathering is a bundle that still takes batches. It belongs to its session and is guarded by the session's lock.
type gathering struct {
	since   ages
	flush   bool // to be sealed without further waiting
	size    int  // bytes of batches
	entries []entry
	groups  []group
	at      map[id.TopicPartition]int32 // index into groups
	slabs   []*slab.Slab
	current *slab.Slab     // the one of slabs that takes the next small batch, or nil
	windows map[Window]int // requests that began in this bundle
}

// roomBatches bounds the batches that a new bundle has room for from the start: more than a bundle of 16 KiB batches
// holds, and no more than 256 KiB of bookkeeping for a bundle that stays small.
const roomBatches = 1024

// fill is how much a bundle held.
type fill struct{ entries, groups int }

// newGathering begins a bundle with room for what the one before it held.
func newGathering(before fill) *gathering {
	groups := min(before.groups, roomBatches)
	return &gathering{
		entries: make([]entry, 0, min(before.entries, roomBatches)), groups: make([]group, 0, groups),
		at: make(map[id.TopicPartition]int32, groups),
	}
}

// room gives the slab that takes n bytes, if there is one.
func (g *gathering) room(n int) *slab.Slab {
	if g.current != nil && n <= g.current.Room() {
		return g.current
	}
	return nil
}

// take adds memory to the bundle's; shared memory takes later small batches too.
func (g *gathering) take(s *slab.Slab, shared bool) {
	g.slabs = append(g.slabs, s)
	if shared {
		g.current = s
	}
}

// add copies the batch to the slab's end and appends it to its partition.
func (g *gathering) add(b *Batch, to *slab.Slab, owner *Produce, index int32) {
	g.since.note(b.Latency, time.Now())
	n := int32(len(g.entries))
	g.entries = append(g.entries, entry{
		bytes: to.Append(b.Bytes), meta: b.Commit, owner: owner, stamp: b.Stamp, base: -1, index: index, next: -1,
	})
	g.size += len(b.Bytes)
	if b.Window != nil {
		if g.windows == nil {
			g.windows = make(map[Window]int)
		}
		g.windows[b.Window]++
	}
	i, ok := g.at[b.Partition]
	if !ok {
		g.at[b.Partition] = int32(len(g.groups))
		g.groups = append(g.groups, group{partition: b.Partition, first: n, last: n})
		return
	}
	g.entries[g.groups[i].last].next = n
	g.groups[i].last = n
}

// sortGroups puts groups in the order of their partitions: positions then rise with them, and commits pack better.
func sortGroups(groups []group) {
	slices.SortFunc(groups, func(a, b group) int { return a.partition.Compare(b.partition) })
}

// lend gets memory for a batch of n bytes that found no room, and tells whether later batches share it. It may wait:
// the session's lock is not held.
func lend(ctx context.Context, pool *slab.Pool, n int, replace bool) (s *slab.Slab, shared bool, err error) {
	if n > pool.SlabBytes() || replace && n > pool.SlabBytes()/ownSlabShare {
		s, err = pool.GetExact(ctx, n)
		return s, false, err
	}
	s, err = pool.Get(ctx)
	return s, true, err
}
