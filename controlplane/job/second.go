package job

import (
	"cmp"
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
	oldest      uint64 // log index of the oldest bundle
	halves      int    // how often a job here is halved
}

// segments cuts the partitions, which come in their order, into ranges that are a job each, and keeps those that are due.
type segments struct {
	rules SecondLevel
	old   func(index uint64) bool
	open  segment
	due   []segment // the largest
}

func (s *segments) add(tp id.TopicPartition, bytes int64, extents int, oldest uint64, halves int) {
	o := &s.open
	limit := s.rules.JobBytes >> max(o.halves, halves)
	if o.partitions > 0 && (o.bytes+bytes > limit || o.extents+extents > jobExtents) {
		s.end()
	}
	if o.partitions == 0 {
		o.first, o.oldest = tp, oldest
	}
	o.last = tp
	o.partitions++
	o.bytes += bytes
	o.extents += extents
	o.oldest = min(o.oldest, oldest)
	o.halves = max(o.halves, halves)
}

// end closes the open range.
func (s *segments) end() {
	if o := s.open; o.due(s.rules, s.old) {
		s.due = append(s.due, o)
		slices.SortStableFunc(s.due, func(a, b segment) int { return cmp.Compare(b.bytes, a.bytes) })
		s.due = s.due[:min(len(s.due), maxSegments)]
	}
	s.open = segment{}
}

func (s *segment) due(r SecondLevel, old func(index uint64) bool) bool {
	n := s.partitions
	return n > 0 && s.extents > n && (s.bytes >= int64(n)*r.Bytes || s.extents >= n*r.Extents ||
		s.extents >= 2*n && old(s.oldest))
}

// secondPlan collects the plan of a range: all that is left there, as far as a job goes.
type secondPlan struct {
	*walk
	limit      int64
	inputs     map[id.Bundle]struct{}
	partitions []job.Partition
	bytes      int64
	extents    int
}

// plan makes the plan of a range by a second walk over it.
func (w *walk) plan(f *frontiers, g segment, limit int64) *secondPlan {
	p := &secondPlan{walk: w, limit: limit, inputs: map[id.Bundle]struct{}{}}
	for _, topic := range topicsInOrder(w.s) {
		offsets := f.of(topic)
		for n := range topic.Partitions {
			tp := id.TopicPartition{Topic: topic.ID, Partition: n}
			if g.first.Compare(tp) <= 0 && tp.Compare(g.last) <= 0 && !covered(tp, w.open.cleans) && !w.passed[tp] {
				p.partition(tp, offsets[n])
			}
		}
	}
	return p
}

// partition takes what is left of one. Markers are taken between extents, not at the end of a run: there they may be in
// the plan of an open job of the first level.
func (p *secondPlan) partition(tp id.TopicPartition, from int64) {
	taken := job.Partition{ID: tp}
	var markers []extent.Extent
	p.s.AscendExtents(tp, from, func(x *extent.Extent) bool {
		switch c, _ := p.classify(tp, x); c {
		case marker:
			markers = append(markers, *x)
			return len(markers) < jobExtents
		case left:
			if !p.take(&taken, markers, x) {
				return false
			}
		case chosen, later:
			return false
		case busy:
			if x.Kind == extent.Relative {
				return false // what lies behind would be a run of its own
			}
		default:
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
		!known && len(p.inputs) == maxInputs
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
