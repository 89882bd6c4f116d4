package view

import (
	"cmp"
	"slices"

	"github.com/freshet-io/freshet/metadata/extent"
)

// Complete reports whether the extents reach the last readable offset. A plan that is stale, or of a partition that is
// unknown or away, counts as complete: nothing follows it.
func (p *Plan) Complete(committed bool) bool {
	return len(p.Extents) == 0 || p.Stale || p.Next() >= p.Marks.Limit(committed)
}

// Next returns the offset behind the last readable one that the extents name. There is one extent at least.
func (p *Plan) Next() int64 { return min(p.Extents[len(p.Extents)-1].Last+1, p.End) }

// Join appends a plan that was made for p.Next(), and reports whether it did. A reader from offset on then reads what
// both name. If compaction moved the border between extents in between, the plans do not fit, and p stays as it is.
//
// Both lists of aborted transactions are complete below their plan's End, so their union is complete below the later
// End. AsOf stays: each plan holds everything that was committed before it.
func (p *Plan) Join(next *Plan, offset int64) bool {
	if len(next.Extents) == 0 || next.Stale {
		return false
	}
	base := next.Extents[0].Base
	kept, _ := slices.BinarySearchFunc(p.Extents, base, func(e extent.Extent, base int64) int {
		return cmp.Compare(e.Base, base)
	})
	switch {
	case kept == 0 && base > offset, kept > 0 && p.Extents[kept-1].Last+1 != base, next.Next() <= p.Next():
		return false
	}
	p.Extents = slices.Concat(p.Extents[:kept], next.Extents)
	p.Aborted = joinAborted(p.Aborted, next.Aborted)
	p.End, p.Live = next.End, false
	p.Marks.HighWatermark = max(p.Marks.HighWatermark, next.Marks.HighWatermark)
	p.Marks.LastStable = max(p.Marks.LastStable, next.Marks.LastStable)
	return true
}

// joinAborted returns the union of two lists in the order of their markers. A marker's offset names its transaction.
func joinAborted(a, b []extent.Aborted) []extent.Aborted {
	if len(a) == 0 || len(b) == 0 {
		return slices.Concat(a, b)
	}
	all := slices.Concat(a, b)
	slices.SortStableFunc(all, func(x, y extent.Aborted) int { return cmp.Compare(x.Last, y.Last) })
	return slices.CompactFunc(all, func(x, y extent.Aborted) bool { return x.Last == y.Last })
}
