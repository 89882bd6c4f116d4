package job

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// laterExtents is how many extents in a row a walk sees that no job takes, before it takes the rest of the partition for
// later too: groups take the oldest bundles, but resubmissions come out of order.
const laterExtents = 64

// class says what a walk does with an extent.
type class uint8

const (
	final      class = iota // never compacted again
	marker                  // of a transaction; part of what it lies between
	left                    // of level 1, to be compacted
	long                    // of level 1; whether it is final turns out at the end of this walk
	busy                    // of an open job, or of one that failed and waits
	unreadable              // of a bundle that is corrupt or missing: passed over
	chosen                  // of level 0 and of a group
	later                   // of level 0 and of none
)

// walk is one round's way over all partitions.
type walk struct {
	s      *metadata.State
	open   *openJobs
	survey *survey
	judged map[id.Bundle]bool // of level 1: whether its long extents are final
	final  int64              // length from which an extent may be final
	now    time.Time

	group      map[id.Bundle]int // index of the group that takes a bundle
	plans      []firstPlan       // of the groups
	unreadable map[bundleKind]bool
	suspects   map[bundleKind]suspect
	ranges     []rangeSetback
	cleans     map[id.TopicPartition]setback
	extents    int // in plans

	passed   map[id.TopicPartition]bool // with too little for a job of the second level
	segments segments
	dirt     dirt
	left     int64 // extents that level 1 left
	backlog  int64 // their bytes
	buffer   []extent.Extent
}

// firstPlan is what the walk found of a group.
type firstPlan struct {
	group
	partitions []job.Partition
	found      map[id.Bundle]bool
}

func (t *Tenure) newWalk(ctx context.Context, s *metadata.State, open *openJobs, v *survey, groups []group, now time.Time) *walk {
	w := &walk{
		s: s, open: open, survey: v, judged: t.judged, final: t.settings.Second.FinalBytes, now: now,
		group: map[id.Bundle]int{}, passed: map[id.TopicPartition]bool{},
	}
	t.mu.Lock()
	w.unreadable, w.ranges = maps.Clone(t.mu.setbacks.unreadable), slices.Clone(t.mu.setbacks.ranges)
	w.cleans, w.suspects = maps.Clone(t.mu.setbacks.cleans), maps.Clone(t.mu.setbacks.suspects)
	t.mu.Unlock()
	for i, g := range groups {
		w.plans = append(w.plans, firstPlan{group: g, found: map[id.Bundle]bool{}})
		for _, b := range g.bundles {
			w.group[b.name] = i
		}
	}
	w.segments = segments{
		rules: t.settings.Second, old: old(s, t.settings.Second.Age), pressed: t.pressed(s.Load().Extents),
	}
	w.dirt = newDirt(s)
	w.dirt.now = func() (ms int64, ok bool) { return t.cleaningTime(ctx, s) }
	return w
}

// all visits every partition; false if ctx ended first.
func (w *walk) all(ctx context.Context, f *frontiers) bool {
	for _, topic := range topicsInOrder(w.s) {
		offsets := f.of(topic)
		w.dirt.topic(topic)
		for p := range topic.Partitions {
			if p%1024 == 0 && ctx.Err() != nil {
				return false
			}
			w.partition(id.TopicPartition{Topic: topic.ID, Partition: p}, &offsets[p])
		}
	}
	w.segments.end()
	return true
}

// partition visits one from where it is not final on.
func (w *walk) partition(tp id.TopicPartition, from *int64) {
	v := visit{walk: w, tp: tp, from: from, passing: true, run: run{group: none, extents: w.buffer}}
	w.s.AscendExtents(tp, *from, v.extent)
	v.end()
	w.buffer = v.run.extents
	cleans := covered(tp, w.open.cleans)
	w.left += int64(v.extents)
	w.backlog += v.bytes
	switch set := w.setback(tp); {
	case v.extents == 0:
	case w.few(&v):
		w.passed[tp] = true
	case cleans, w.now.Before(set.until):
		w.segments.end() // a job's range must not reach over it
	default:
		w.segments.add(tp, part{bytes: v.bytes, extents: v.extents, oldest: v.oldest, halves: set.halves()})
	}
	if w.dirt.compacted && !cleans && !covered(tp, w.open.seconds) && !w.now.Before(w.cleans[tp].until) {
		w.dirt.consider(w.s, tp, w.cleans[tp].failures)
	}
}

// few reports whether a partition has less than half of what makes a job of the second level. It waits: ranges are due by their
// average, so idle partitions would keep a busy one of their range from being compacted.
func (w *walk) few(v *visit) bool {
	r := &w.segments.rules
	least := r.Extents / 2
	if w.segments.pressed {
		least = min(least, worthwhile)
	}
	return v.extents < least && v.bytes < r.Bytes/2 && !w.segments.old(v.oldest)
}

// setback returns the worst one of second level jobs over a partition.
func (w *walk) setback(tp id.TopicPartition) setback {
	if len(w.ranges) == 0 {
		return setback{}
	}
	s := setbacks{ranges: w.ranges}
	return s.of(tp, tp)
}

// classify says what to do with an extent; group is that of a chosen one.
func (w *walk) classify(tp id.TopicPartition, x *extent.Extent) (c class, group int) {
	switch {
	case x.Kind == extent.Marker:
		return marker, none
	case w.unreadable[missingOrCorrupt(x.Bundle, job.Compact)]:
		return unreadable, none
	case x.Kind == extent.Relative:
		if g, ok := w.group[x.Bundle]; ok {
			return chosen, g
		}
		if w.survey.waiting[x.Bundle] || w.open.rewrites(tp, x.Bundle) {
			return busy, none
		}
		return later, none
	}
	b := w.survey.first[x.Bundle]
	switch {
	case b == nil:
		return final, none
	case w.open.writes(x.Bundle), w.open.rewrites(tp, x.Bundle):
		return busy, none
	case int64(x.Length) < w.final:
		return left, none
	}
	switch stays, known := w.judged[x.Bundle]; {
	case !known:
		return long, none
	case stays:
		return final, none
	default:
		return left, none
	}
}

// judge decides of the bundles of level 1 that are complete whether their long extents stay, after a walk over all of
// them. Three quarters of the object must be such, or little would keep much of it.
func (w *walk) judge() {
	for name, b := range w.survey.first {
		if _, known := w.judged[name]; !known && !w.open.writes(name) {
			w.judged[name] = 4*b.large >= 3*b.size
		}
	}
	maps.DeleteFunc(w.judged, func(b id.Bundle, _ bool) bool { return w.survey.first[b] == nil })
}

// none is the group of what is of no group.
const none = -1

// visit is a walk through one partition.
type visit struct {
	*walk
	tp      id.TopicPartition
	from    *int64 // everything below is final
	passing bool   // all extents so far are final
	fresh   bool   // level 0 has begun
	taken   bool   // what was seen last is of another job, and so are markers that follow
	behind  int    // extents for later in a row
	run     run

	// What level 1 left.
	bytes   int64
	extents int
	oldest  int64
	held    int // markers since the last extent, which count if another follows
}

// run is what a job of the first level takes without a hole.
type run struct {
	group   int
	extents []extent.Extent
}

func (v *visit) extent(x *extent.Extent) (more bool) {
	c, group := v.classify(v.tp, x)
	v.passing = v.passing && (c == final || c == unreadable || c == marker)
	if x.Kind == extent.Relative {
		v.fresh = v.fresh || c != unreadable
		if len(v.plans) == 0 && c != unreadable {
			return false
		}
	}
	switch c {
	case final, unreadable:
		if v.passing {
			*v.from = x.Last + 1
		}
		v.pause(false)
	case marker:
		v.marker(x)
	case left:
		v.left(x)
		v.pause(false)
	case long:
		v.survey.first[x.Bundle].large += int64(x.Length)
		v.pause(false)
	case busy:
		v.pause(true)
	case later:
		v.pause(true)
		v.behind++
		return v.behind < laterExtents
	case chosen:
		v.choose(x, group)
	}
	v.behind = 0
	return true
}

// left counts an extent that the second level is to compact.
func (v *visit) left(x *extent.Extent) {
	if v.fresh {
		return // a job would leave a hole before it, and two extents of level 2 where one will do
	}
	b := v.survey.first[x.Bundle]
	if v.extents == 0 || b.madeMs < v.oldest {
		v.oldest = b.madeMs
	}
	v.bytes += int64(x.Length)
	v.extents += 1 + v.held
	v.held = 0
}

// marker holds a marker: whether it counts, and for what, is known by what follows.
func (v *visit) marker(x *extent.Extent) {
	if !v.fresh {
		v.held++
	}
	if len(v.plans) > 0 && !v.taken {
		v.run.extents = append(v.run.extents, *x)
	}
}

// choose takes an extent into its group's plan.
func (v *visit) choose(x *extent.Extent, group int) {
	if v.run.group != none && v.run.group != group {
		v.pause(false)
	}
	v.taken = false
	v.run.group = group
	v.run.extents = append(v.run.extents, *x)
	v.plans[group].found[x.Bundle] = true
}

// pause ends the run; taken says that what follows it is another job's.
func (v *visit) pause(taken bool) {
	if v.run.group != none {
		v.emit()
	}
	v.run.group, v.run.extents = none, v.run.extents[:0]
	v.taken, v.held = taken, 0
}

// end takes in what the partition ends with. Markers alone are work for the first plan: nothing else would ever write
// them out.
func (v *visit) end() {
	if v.run.group == none && len(v.run.extents) > 1 && v.behind == 0 {
		v.run.group = 0
	}
	v.pause(false)
}

// emit adds the run to its group's plan.
func (v *visit) emit() {
	if v.walk.extents+len(v.run.extents) > roundExtents+jobExtents {
		return // there are so many markers between them; they wait for the next job
	}
	v.walk.extents += len(v.run.extents)
	p := &v.plans[v.run.group]
	if n := len(p.partitions); n == 0 || p.partitions[n-1].ID != v.tp {
		p.partitions = append(p.partitions, job.Partition{ID: v.tp})
	}
	last := &p.partitions[len(p.partitions)-1]
	last.Extents = append(last.Extents, v.run.extents...)
}
