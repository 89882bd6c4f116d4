package job

import (
	"cmp"
	"maps"
	"slices"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// maxSegments bounds the ranges that one round finds due.
const maxSegments = 64

// segment is a range of partitions with what level 1 left there.
type segment struct {
	first, last id.TopicPartition
	partitions  int // with anything left
	bytes       int64
	extents     int
	oldest      int64 // when the oldest bundle was made
	halves      int   // how often a job here is halved
}

// part is what level 1 left of one partition.
type part struct {
	bytes   int64
	extents int
	oldest  int64
	halves  int
}

// segments cuts the partitions, which come in their order, into ranges that are a job each, and keeps those that are due.
type segments struct {
	rules   SecondLevel
	old     func(madeMs int64) bool
	pressed bool // extents are to become fewer
	open    segment
	due     []segment // the largest, or those with the most extents of a partition
}

func (s *segments) add(tp id.TopicPartition, p part) {
	o := &s.open
	limit := s.rules.JobBytes >> max(o.halves, p.halves)
	if o.partitions > 0 && (o.bytes+p.bytes > limit || o.extents+p.extents > jobExtents) {
		s.end()
	}
	if o.partitions == 0 {
		o.first, o.oldest = tp, p.oldest
	}
	o.last = tp
	o.partitions++
	o.bytes += p.bytes
	o.extents += p.extents
	o.oldest = min(o.oldest, p.oldest)
	o.halves = max(o.halves, p.halves)
}

// end closes the open range.
func (s *segments) end() {
	if s.isDue(&s.open) {
		s.due = append(s.due, s.open)
		slices.SortStableFunc(s.due, s.compare)
		s.due = s.due[:min(len(s.due), maxSegments)]
	}
	s.open = segment{}
}

func (s *segments) compare(a, b segment) int {
	if s.pressed {
		return cmp.Compare(int64(b.extents)*int64(a.partitions), int64(a.extents)*int64(b.partitions))
	}
	return cmp.Compare(b.bytes, a.bytes)
}

func (s *segments) isDue(g *segment) bool {
	r, n := &s.rules, g.partitions
	if n == 0 || g.extents <= n {
		return false
	}
	return g.bytes >= int64(n)*r.Bytes || g.extents >= n*r.Extents || g.extents >= 2*n && s.old(g.oldest) ||
		s.pressed && g.extents >= n*worthwhile
}

// secondPlan collects the plan of a range: all that is left there, as far as a job goes.
type secondPlan struct {
	*walk
	limit      int64
	newest     int64 // when the newest bundle was made that is taken, and that anything taken lies behind
	inputs     map[id.Bundle]struct{}
	partitions []job.Partition
	bytes      int64
	extents    int
}

// plan makes the plan of a range by two more walks over it. The first finds the bundles: of too many the oldest are
// taken, which is how far each partition goes, and not those that the first partitions happen to name. What lies behind an
// extent of a newer bundle, of a job that took long, is as new as that: it is not taken without it.
func (w *walk) plan(f *frontiers, g segment, limit int64) *secondPlan {
	p := &secondPlan{walk: w, limit: limit, inputs: map[id.Bundle]struct{}{}}
	made := map[id.Bundle]int64{}
	w.within(f, g, func(tp id.TopicPartition, from int64) {
		newest := int64(0)
		w.s.AscendExtents(tp, from, func(x *extent.Extent) bool {
			c, _ := w.classify(tp, x)
			if c == left {
				newest = max(newest, w.survey.first[x.Bundle].madeMs)
				if at, known := made[x.Bundle]; !known || newest < at {
					made[x.Bundle] = newest
				}
			}
			return !endsSecond(c, x)
		})
	})
	oldest := slices.Sorted(maps.Values(made))
	if len(oldest) == 0 {
		return p
	}
	p.newest = oldest[min(len(oldest), maxInputs)-1]
	w.within(f, g, p.partition)
	return p
}

// endsSecond tells whether a job of the second level takes nothing of a partition from an extent on: what lies behind
// would be a run of its own.
func endsSecond(c class, x *extent.Extent) bool {
	return c == chosen || c == later || c == busy && x.Kind == extent.Relative
}

// within visits the partitions of a range that jobs of the second level take, from where they are not final on.
func (w *walk) within(f *frontiers, g segment, visit func(tp id.TopicPartition, from int64)) {
	for _, topic := range topicsInOrder(w.s) {
		offsets := f.of(topic)
		for n := range topic.Partitions {
			tp := id.TopicPartition{Topic: topic.ID, Partition: n}
			if g.first.Compare(tp) <= 0 && tp.Compare(g.last) <= 0 && !covered(tp, w.open.cleans) && !w.passed[tp] {
				visit(tp, offsets[n])
			}
		}
	}
}

// partition takes what is left of one. Markers are taken between extents, not at the end of a run: there they may be in
// the plan of an open job of the first level.
func (p *secondPlan) partition(tp id.TopicPartition, from int64) {
	taken := job.Partition{ID: tp}
	var markers []extent.Extent
	p.s.AscendExtents(tp, from, func(x *extent.Extent) bool {
		c, _ := p.classify(tp, x)
		if c == marker {
			markers = append(markers, *x)
			return len(markers) < jobExtents
		}
		if endsSecond(c, x) || c == left && !p.take(&taken, markers, x) {
			return false
		}
		markers = markers[:0]
		return true
	})
	if len(taken.Extents) > 0 {
		p.partitions = append(p.partitions, taken)
	}
}

func (p *secondPlan) take(to *job.Partition, markers []extent.Extent, x *extent.Extent) bool {
	_, known := p.inputs[x.Bundle]
	full := p.bytes > 0 && p.bytes+int64(x.Length) > p.limit || p.extents+1+len(markers) > jobExtents ||
		!known && len(p.inputs) == maxInputs || p.survey.first[x.Bundle].madeMs > p.newest
	if full {
		return false
	}
	p.inputs[x.Bundle] = struct{}{}
	p.bytes += int64(x.Length)
	p.extents += 1 + len(markers)
	to.Extents = append(append(to.Extents, markers...), *x)
	return true
}

func (p *secondPlan) start() *metadata.StartJob {
	return startOf(job.Compact, 2, p.partitions, sortedKeys(p.inputs))
}
