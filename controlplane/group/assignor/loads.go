package assignor

import (
	"cmp"
	"slices"
)

// loads walks the subscribers of a topic by how many partitions they have: from below, to find who gets the next
// partition, and from above, to find who gives one up. Both walk over a range of equally loaded members that widens
// when its members were served once and so reached the load of their neighbour:
//
//	          ^ least       most
//	          | loaded      loaded   #
//	partition | range    ##[..<-   ]##  <- these have nothing to give
//	count     | [..->  ]##[#######]##
//	          | [######]##[#######]##
//	          +----------------------->
//	            members
//
// (UniformHeterogeneousAssignmentBuilder.MemberAssignmentBalancer)
type loads struct {
	sizes  []int // by member index; changed by the owner of the sizes as partitions move
	sorted []int // member indexes, least loaded first

	leastEnd, leastNext, leastLevel         int
	mostStart, mostEnd, mostNext, mostLevel int
}

// newLoads needs one member at least.
func newLoads(members, sizes []int) *loads {
	s := slices.Clone(members)
	slices.SortFunc(s, func(a, b int) int { return cmp.Or(cmp.Compare(sizes[a], sizes[b]), cmp.Compare(a, b)) })
	return &loads{
		sizes: sizes, sorted: s,
		leastLevel: sizes[s[0]] - 1,
		mostStart:  len(s), mostEnd: len(s), mostNext: len(s) - 1, mostLevel: sizes[s[len(s)-1]] + 1,
	}
}

// spread is the difference of the greatest and the smallest load at the start.
func (l *loads) spread() int { return l.mostLevel - l.leastLevel - 2 }

// balanced tells whether moving a partition from the most to the least loaded range would better nothing.
func (l *loads) balanced() bool { return l.mostLevel-l.leastLevel <= 1 }

// nextLeast gives the member that is to get the next partition.
func (l *loads) nextLeast() int {
	if l.leastNext >= l.leastEnd {
		l.leastLevel++
		for l.leastEnd < len(l.sorted) && l.sizes[l.sorted[l.leastEnd]] == l.leastLevel {
			l.leastEnd++
		}
		l.leastNext = 0
	}
	l.leastNext++
	return l.sorted[l.leastNext-1]
}

// nextMost gives the member that is to give up a partition, passing over those that have none to give for good.
func (l *loads) nextMost(gives func(member int) bool) (int, bool) {
	for {
		if l.mostNext < l.mostStart {
			l.widenMost()
		}
		if l.mostNext < 0 {
			return 0, false
		}
		member := l.sorted[l.mostNext]
		if gives(member) {
			l.mostNext--
			return member, true
		}
		l.mostEnd--
		l.sorted[l.mostNext], l.sorted[l.mostEnd] = l.sorted[l.mostEnd], member
		l.mostNext--
	}
}

// widenMost lowers the level of the most loaded range by one and takes in the members that are on it. A range that
// became empty, for its members have nothing to give, starts anew below.
func (l *loads) widenMost() {
	if l.mostEnd <= l.mostStart && l.mostStart > 0 {
		l.mostLevel = l.sizes[l.sorted[l.mostStart-1]]
	} else {
		l.mostLevel--
	}
	for l.mostStart > 0 && l.sizes[l.sorted[l.mostStart-1]] == l.mostLevel {
		l.mostStart--
	}
	l.mostNext = l.mostEnd - 1
}
