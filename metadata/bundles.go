package metadata

import (
	"iter"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// liveBundle is a bundle that extents refer to.
type liveBundle struct {
	bytes     uint32 // size of the object
	extents   uint32 // live ones
	liveBytes uint32 // of the live extents
}

// DeadBundle is a bundle that no extent refers to any more. Its object can be deleted once it was dead before the
// older retained snapshot was taken, and after a grace (design.md 9).
type DeadBundle struct {
	Bytes uint32 // size of the object
	Index uint64 // log index at which it died
	AtMs  int64  // command time at which it died
}

// DeadBundles gives the dead bundles in the order of their names.
func (s *machine) DeadBundles() iter.Seq2[id.Bundle, DeadBundle] {
	return func(yield func(id.Bundle, DeadBundle) bool) { s.dead.Scan(yield) }
}

// Bundle gives the size of a bundle's object and of what of it is live; false if it is neither live nor dead. Extents
// of deleted topics and trimmed fronts count as live until Ticks have worked them off.
func (s *machine) Bundle(b id.Bundle) (bytes, liveExtents, liveBytes uint32, ok bool) {
	if l, ok := s.bundles.Get(b); ok {
		return l.bytes, l.extents, l.liveBytes, true
	}
	d, ok := s.dead.Get(b)
	return d.Bytes, 0, 0, ok
}

// addExtents counts new extents of a bundle, none or several; the first call for a bundle makes it known.
func (s *machine) addExtents(b id.Bundle, size, extents, bytes uint32) {
	l, ok := s.bundles.Get(b)
	if !ok {
		if extents == 0 {
			if _, ok := s.dead.Get(b); !ok {
				s.dead.Set(b, DeadBundle{Bytes: size, Index: s.index, AtMs: s.now})
			}
			return
		}
		s.dead.Delete(b)
		l.bytes = size
	}
	l.extents += extents
	l.liveBytes += bytes
	s.bundles.Set(b, l)
}

// releaseExtent takes an extent that left the partitions for good from its bundle.
func (s *machine) releaseExtent(x *extent.Extent) {
	if x.Kind == extent.Marker {
		return // it has none
	}
	l, ok := s.bundles.Get(x.Bundle)
	if !ok {
		return // of a snapshot that nothing wrote
	}
	l.extents--
	l.liveBytes -= x.Length
	if l.extents > 0 {
		s.bundles.Set(x.Bundle, l)
		return
	}
	s.bundles.Delete(x.Bundle)
	s.dead.Set(x.Bundle, DeadBundle{Bytes: l.bytes, Index: s.index, AtMs: s.now})
}
