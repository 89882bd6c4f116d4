package job

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// openJobs indexes the open jobs of the state.
type openJobs struct {
	byInput map[id.Bundle][]metadata.JobInfo // Compact jobs
	cleans  []metadata.JobInfo
	seconds []metadata.JobInfo // Compact jobs of the second level, without those that reclaim
	all     map[id.Session]metadata.JobInfo
	load    map[id.Session]int // jobs of each runner
	class   [classes]int       // jobs of each class
}

// surveyJobs indexes the open jobs. reclaiming are those of classReclaim.
func surveyJobs(s *metadata.State, reclaiming map[id.Session]bool) *openJobs {
	o := &openJobs{
		byInput: map[id.Bundle][]metadata.JobInfo{}, all: map[id.Session]metadata.JobInfo{}, load: map[id.Session]int{},
	}
	for j := range s.Jobs() {
		class := classOf(j.Kind, j.Level)
		if reclaiming[j.ID] {
			class = classReclaim
		}
		o.add(j, class)
	}
	return o
}

func (o *openJobs) add(j metadata.JobInfo, class int) {
	o.all[j.ID] = j
	o.load[j.Runner]++
	o.class[class]++
	if j.Kind == job.Clean {
		o.cleans = append(o.cleans, j)
		return
	}
	if class == classSecond {
		o.seconds = append(o.seconds, j)
	}
	for _, b := range j.Inputs {
		o.byInput[b] = append(o.byInput[b], j)
	}
}

// rewrites reports whether an open Compact job has the bundle as input and covers the partition.
func (o *openJobs) rewrites(tp id.TopicPartition, b id.Bundle) bool {
	return slices.ContainsFunc(o.byInput[b], func(j metadata.JobInfo) bool { return j.Covers(tp) })
}

// writes reports whether an open job wrote the bundle. Such a bundle may get more extents.
func (o *openJobs) writes(b id.Bundle) bool {
	_, open := o.all[b.Submission().Session]
	return open
}

func covered(tp id.TopicPartition, jobs []metadata.JobInfo) bool {
	return slices.ContainsFunc(jobs, func(j metadata.JobInfo) bool { return j.Covers(tp) })
}

// candidate is a bundle of level 0 that may be compacted, or one that may be rewritten because it is half-dead.
type candidate struct {
	name    id.Bundle
	madeMs  int64 // command time of its commit
	bytes   int64 // live bytes
	dead    int64 // other bytes of the object, of a half-dead bundle
	extents int   // live extents
	halves  int   // a job with it has 1/2^halves of the usual bundles, after failures
}

// firstBundle describes a bundle of level 1.
type firstBundle struct {
	madeMs int64
	size   int64 // of the object
	large  int64 // bytes of extents that are long enough to be final
}

// survey is one round's view of the live bundles.
type survey struct {
	candidates []candidate                // the oldest, by commit; at most roundBundles
	waiting    map[id.Bundle]bool         // of level 0, backing off after a failed job, or without extents
	first      map[id.Bundle]*firstBundle // of level 1
	fresh      int                        // number of bundles of level 0
	freshBytes int64                      // live bytes of level 0

	halfDead    []candidate // those with the most dead bytes; at most roundBundles
	dueHalfDead int         // number of half-dead bundles that neither level will rewrite
	deadBytes   int64       // of all objects
}

// surveyBundles surveys the live bundles. It also expires entries of vacant and of the setbacks.
func (t *Tenure) surveyBundles(s *metadata.State, open *openJobs, now time.Time) *survey {
	v := &survey{first: map[id.Bundle]*firstBundle{}, waiting: map[id.Bundle]bool{}}
	live := func(b id.Bundle) bool { _, extents, _, _ := s.Bundle(b); return extents > 0 }
	over := func(b id.Bundle, until time.Time) bool { return !now.Before(until) || !live(b) }
	maps.DeleteFunc(t.vacant, over)
	maps.DeleteFunc(t.reclaims.seen, over)
	t.mu.Lock()
	if t.mu.setbacks.prune(live, now) {
		t.frontiers = newFrontiers()
	}
	sets, unreadable := maps.Clone(t.mu.setbacks.bundles), maps.Clone(t.mu.setbacks.unreadable)
	t.metrics.unreadable.Set(float64(t.mu.setbacks.countUnreadable()))
	t.mu.Unlock()
	aged := old(s, 2*t.settings.Second.Age)
	for name, b := range s.Bundles() {
		v.deadBytes += int64(b.Bytes) - int64(b.LiveBytes)
		if t.halfDead(&b) && t.settled(name, &b, aged) && !open.writes(name) {
			v.dueHalfDead++
			set := sets[name]
			if _, seen := t.reclaims.seen[name]; !seen && len(open.byInput[name]) == 0 && !unreadable[missingOrCorrupt(name, job.Compact)] && !now.Before(set.until) {
				v.addHalfDead(candidate{
					name: name, bytes: int64(b.LiveBytes), dead: int64(b.Bytes) - int64(b.LiveBytes), extents: int(b.LiveExtents),
					halves: set.halves(),
				})
			}
		}
		switch b.Level {
		case 0:
			v.fresh++
			v.freshBytes += int64(b.LiveBytes)
			set := sets[name]
			_, vacant := t.vacant[name]
			switch {
			case len(open.byInput[name]) > 0, unreadable[missingOrCorrupt(name, job.Compact)]:
				continue
			case vacant, now.Before(set.until):
				v.waiting[name] = true
				continue
			}
			v.add(candidate{
				name: name, madeMs: b.MadeMs, bytes: int64(b.LiveBytes), extents: int(b.LiveExtents), halves: set.halves(),
			})
		case 1:
			v.first[name] = &firstBundle{madeMs: b.MadeMs, size: int64(b.Bytes)}
		}
	}
	v.cut()
	v.cutHalfDead()
	return v
}

// add adds a candidate. The survey keeps the roundBundles oldest.
func (v *survey) add(c candidate) {
	if v.candidates = append(v.candidates, c); len(v.candidates) == 2*roundBundles {
		v.cut()
	}
}

func (v *survey) cut() {
	slices.SortFunc(v.candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.madeMs, b.madeMs), cmp.Compare(a.name, b.name))
	})
	v.candidates = v.candidates[:min(len(v.candidates), roundBundles)]
}

// group is the input of one job of the first level, or of one that rewrites half-dead bundles.
type group struct {
	bundles []candidate
	bytes   int64
	extents int
	halves  int
}

// groups returns the due groups, oldest first: at most limit groups with roundExtents extents in all.
func (v *survey) groups(f FirstLevel, limit int, old func(madeMs int64) bool) []group {
	var due []group
	left := roundExtents
	var g group
	for _, c := range v.candidates {
		if !g.fits(f, c) {
			if len(due) == limit || g.extents > left {
				return due
			}
			due, left = append(due, g), left-g.extents
			g = group{}
		}
		g.add(c)
	}
	if len(due) < limit && g.extents <= left && g.due(f, old) {
		due = append(due, g)
	}
	return due
}

// due reports whether the last group, which may not be full, is due: by count, by bytes, or by age.
func (g *group) due(f FirstLevel, old func(madeMs int64) bool) bool {
	n := len(g.bundles)
	return n > 0 && (n >= g.limit(f) || g.bytes >= f.Bytes || n > 1 && old(g.bundles[0].madeMs))
}

func (g *group) limit(f FirstLevel) int { return max(f.Bundles>>g.halves, 1) }

func (g *group) fits(f FirstLevel, c candidate) bool {
	with := group{halves: max(g.halves, c.halves)}
	return len(g.bundles) == 0 ||
		len(g.bundles) < with.limit(f) && g.bytes < f.Bytes && g.extents+c.extents <= jobExtents
}

func (g *group) add(c candidate) {
	g.bundles = append(g.bundles, c)
	g.bytes += c.bytes
	g.extents += c.extents
	g.halves = max(g.halves, c.halves)
}
