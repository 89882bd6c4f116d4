package cache

import (
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// unitKey names a unit: the beginning of a bundle up to WholeUnit, or PartUnit bytes from first on.
type unitKey struct {
	bundle id.Bundle
	first  uint32
	part   bool
}

// follows tells whether the unit begins where the other one ends.
func (k unitKey) follows(other unitKey) bool {
	return k.bundle == other.bundle && k.part && other.part && uint64(k.first) == uint64(other.first)+PartUnit
}

func (k unitKey) span() int64 {
	if k.part {
		return PartUnit
	}
	return WholeUnit
}

// unitKeys gives the units that hold an extent, in order.
func unitKeys(e *extent.Extent) []unitKey {
	end := uint64(e.Position) + uint64(e.Length)
	if e.Kind == extent.Relative && end <= WholeUnit {
		return []unitKey{{bundle: e.Bundle}}
	}
	var keys []unitKey
	for at := uint64(e.Position) / PartUnit * PartUnit; at < end; at += PartUnit {
		keys = append(keys, unitKey{bundle: e.Bundle, first: uint32(at), part: true})
	}
	return keys
}

// segment is a stretch of a bundle's bytes.
type segment struct {
	position uint32 // of the first byte in the object
	bytes    []byte
}

func (s *segment) end() uint64 { return uint64(s.position) + uint64(len(s.bytes)) }

// Own is the memory of a bundle that this agent wrote: its accepted batches, with true base offsets and leader epochs
// as readers get them. writer.Committed implements it.
type Own interface {
	// Slices appends the bytes [position, position+length) of the object to dst; ok tells whether they are all there.
	Slices(dst [][]byte, position, length uint32) (_ [][]byte, ok bool)
	// Held is the memory by capacity, bytes.
	Held() int64
	// Pieces calls yield with all the bytes there are, in the order of their positions in the object.
	Pieces(yield func(position uint32, bytes []byte))
	Retain()
	Release()
}

// unit is bytes of one bundle: an own one, patched and checked already, or segments that were read.
type unit struct {
	key      unitKey
	own      Own       // nil if read
	segments []segment // in the order of positions, adjoining
	size     int64     // charged to the cache
	reader   uint64    // on whose account it was read
	refs     atomic.Int32
	free     func()
	foreign  bool          // another agent sent it
	gaps     bool          // that one had not all of the object's bytes
	pinned   *atomic.Int64 // where it is counted from when it left the cache; set before the cache's reference goes

	mu struct {
		sync.Mutex
		ready map[readyKey]struct{}
		// of absolute extents, ascending by position
		checked []stretch
		marks   []mark
	}

	// Guarded by the store's lock.
	class      Class
	unread     bool // read ahead, and not used since
	since      time.Time
	next, prev *unit
}

// readyKey is an extent's place in its bundle and its offsets.
type readyKey struct {
	position, length uint32
	base, last       int64
}

// partial tells that bytes of the object are left out, so that an extent may lack some.
func (u *unit) partial() bool { return u.own != nil || u.gaps }

// secondHand tells that the bytes are not the object store's: who needs the object does not take them.
func (u *unit) secondHand() bool { return u.own != nil || u.foreign }

func (u *unit) retain() { u.refs.Add(1) }

func (u *unit) release() {
	if u.refs.Add(-1) > 0 {
		return
	}
	if u.pinned != nil {
		u.pinned.Add(-u.size)
	}
	if u.free != nil {
		u.free()
	}
}

// slice appends the unit's bytes of [from, to) to dst; it reports whether it holds them all.
func (u *unit) slice(dst [][]byte, from, to uint64) ([][]byte, bool) {
	if u.own != nil {
		return u.own.Slices(dst, uint32(from), uint32(to-from))
	}
	i := sort.Search(len(u.segments), func(i int) bool { return u.segments[i].end() > from })
	for ; i < len(u.segments) && from < to; i++ {
		s := &u.segments[i]
		if uint64(s.position) > from {
			return dst, false
		}
		lo, hi := from-uint64(s.position), min(to, s.end())-uint64(s.position)
		dst = append(dst, s.bytes[lo:hi:hi])
		from += hi - lo
	}
	return dst, from >= to
}
