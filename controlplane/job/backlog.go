package job

import "slices"

// backlog is what the first level left, as a round finds it.
type backlog struct {
	extents int64
	bundles []uint64 // log indexes of the bundles with any of it, ascending
}

// left gives what a walk over all partitions has counted.
func (w *walk) left() (b backlog) {
	for _, f := range w.survey.first {
		if f.left > 0 {
			b.extents += int64(f.left)
			b.bundles = append(b.bundles, f.index)
		}
	}
	slices.Sort(b.bundles)
	return b
}

// presses tells whether extents are to become fewer: they have come to half of their bound, and at least half of them can
// be merged. Where more of them are final, merging early would make but more of those, for as long as they are kept.
func (b *backlog) presses(live, bound int64) bool {
	return 2*live >= bound && 2*b.extents >= live
}

// fills tells whether extents of a partition, the oldest of that log index, lie in so many bundles, and so many in those
// that one job takes that merging them is worthwhile: beyond maxInputs waiting makes no longer extents. It takes them for
// spread evenly.
func (b *backlog) fills(bundles, extents int, oldest uint64) bool {
	i, _ := slices.BinarySearch(b.bundles, oldest)
	n := len(b.bundles) - i
	return n >= bundles && extents*maxInputs >= worthwhile*max(n, maxInputs)
}
