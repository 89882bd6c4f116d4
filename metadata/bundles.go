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
	level     uint8  // 0 if an agent wrote it for clients, else the level of the job that wrote it
	madeMs    int64  // command time at which it became live
	// atMs is the command time at which its newest records were appended, 0 if unknown. A job's bundle inherits it from the bundles
	// that it replaced.
	atMs int64
}

// BundleInfo describes a live bundle.
type BundleInfo struct {
	Bytes       uint32 // size of the object
	LiveExtents uint32
	LiveBytes   uint32 // of the live extents
	Level       uint8  // 0: written by an agent for its clients; else the level of the job that wrote it
	MadeMs      int64  // command time at which it became live
}

// Bundles gives the live bundles in the order of their names.
func (s *machine) Bundles() iter.Seq2[id.Bundle, BundleInfo] {
	return func(yield func(id.Bundle, BundleInfo) bool) {
		s.bundles.Scan(func(b id.Bundle, l liveBundle) bool { return yield(b, l.info()) })
	}
}

// BundleLevel gives the level of a live bundle; false if it is not live.
func (s *machine) BundleLevel(b id.Bundle) (level uint8, ok bool) {
	l, ok := s.bundles.Get(b)
	return l.level, ok
}

func (l *liveBundle) info() BundleInfo {
	return BundleInfo{Bytes: l.bytes, LiveExtents: l.extents, LiveBytes: l.liveBytes, Level: l.level, MadeMs: l.madeMs}
}

// DeadBundle is a bundle that no extent refers to any more. Its object can be deleted once it was dead before the
// older retained snapshot was taken, and after a grace (ARCHITECTURE.md, What is deleted, and when).
type DeadBundle struct {
	Bytes uint32 // size of the object
	Index uint64 // log index at which it died
	AtMs  int64  // command time at which it died
}

// DeadBundles gives the dead bundles in the order of their names.
func (s *machine) DeadBundles() iter.Seq2[id.Bundle, DeadBundle] {
	return func(yield func(id.Bundle, DeadBundle) bool) { s.dead.Scan(yield) }
}

// Bundle returns the object size, live extents and live bytes of a bundle, or false if it is neither live nor dead. Extents of deleted
// topics and below a log start count as live until Ticks have released them.
func (s *machine) Bundle(b id.Bundle) (bytes, liveExtents, liveBytes uint32, ok bool) {
	if l, ok := s.bundles.Get(b); ok {
		return l.bytes, l.extents, l.liveBytes, true
	}
	d, ok := s.dead.Get(b)
	return d.Bytes, 0, 0, ok
}

// addExtents counts new extents of a bundle. The first call for a bundle stores its size. If extents is 0, an unknown bundle becomes dead.
func (s *machine) addExtents(b id.Bundle, size uint32, level uint8, extents, bytes uint32) {
	l, ok := s.bundles.Get(b)
	if !ok {
		d, dead := s.dead.Get(b)
		if !dead {
			d = DeadBundle{Bytes: size, Index: s.index, AtMs: s.now}
		}
		if extents == 0 {
			s.dead.Set(b, d)
			return
		}
		s.dead.Delete(b)
		l.bytes, l.level, l.madeMs = d.Bytes, level, s.now
		if level == 0 {
			l.atMs = s.now
		}
		s.load.count(&l, 1)
	}
	s.load.Extents += int64(extents)
	l.extents += extents
	l.liveBytes += bytes
	s.bundles.Set(b, l)
}

// releaseExtent stops counting an extent that no partition refers to any more.
func (s *machine) releaseExtent(x *extent.Extent) {
	if x.Kind == extent.Marker {
		s.load.Extents--
		return // a marker has no bundle
	}
	s.releaseExtents(x.Bundle, 1, x.Length)
}

// releaseExtents stops counting extents of a bundle. Without any left, the bundle becomes dead.
func (s *machine) releaseExtents(b id.Bundle, extents, bytes uint32) {
	l, ok := s.bundles.Get(b)
	if !ok {
		return // only a snapshot that Encode did not write has such an extent
	}
	l.extents -= extents
	l.liveBytes -= bytes
	s.load.Extents -= int64(extents)
	if l.extents > 0 {
		s.bundles.Set(b, l)
		return
	}
	s.load.count(&l, -1)
	s.bundles.Delete(b)
	s.dead.Set(b, DeadBundle{Bytes: l.bytes, Index: s.index, AtMs: s.now})
}
