package job

import "slices"

// spread has ranges of the second level come one after the other where many extents wait. Partitions that are used alike
// fill a job's inputs at the same time, again and again: all of them wait for that then, twice as many extents as wait where
// ranges have their turns. In that case as many ranges have half of a job's inputs as have not; where there are clearly more,
// the fullest of them begin before they are due. It costs some extents that are a little shorter, once.
type spread struct {
	on         bool
	partitions int       // with anything left
	halfFull   []segment // not due
}

// consider keeps a range that is not due if its partitions fill half of a job's inputs.
func (s *spread) consider(g *segment) {
	if n := g.partitions; s.on && n > 0 && 2*g.half >= n && g.extents >= n*worthwhile {
		s.halfFull = append(s.halfFull, *g)
	}
}

// early gives the ranges that begin before they are due, at most limit.
func (s *spread) early(limit int) []segment {
	over := -s.partitions * 3 / 5
	for i := range s.halfFull {
		over += s.halfFull[i].partitions
	}
	slices.SortStableFunc(s.halfFull, mostExtents)
	n := 0
	for ; n < len(s.halfFull) && n < limit && over > 0; n++ {
		over -= s.halfFull[n].partitions
	}
	return s.halfFull[:n]
}
