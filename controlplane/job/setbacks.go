package job

import (
	"slices"
	"time"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// Pauses after failures, doubling from the first to the last.
const (
	firstPause = 10 * time.Second
	lastPause  = time.Hour
	// runnerPause is the longest pause of a runner: it may be what fails.
	runnerPause = 5 * time.Minute
	// vacantPause is how long bundles are passed over of which no partition has an extent: those of topics that can be
	// taken back, or that no Tick has worked off.
	vacantPause = 10 * time.Minute
	// maxSetbacks bounds the bundles that setbacks are remembered of, maxRanges the ranges of partitions.
	maxSetbacks = 4096
	maxRanges   = 256
)

// setback is what is remembered of a failure.
type setback struct {
	failures int
	until    time.Time
}

// again is the setback after one more failure.
func (s setback) again(now time.Time, longest time.Duration) setback {
	pause := min(firstPause<<min(s.failures, 16), longest)
	return setback{failures: s.failures + 1, until: now.Add(pause)}
}

// halves tells how often what failed is to be halved: a first failure may be anything.
func (s setback) halves() int { return max(s.failures-1, 0) }

// setbacks remembers what jobs failed on, so that it waits, and comes again in smaller jobs, while the rest goes on. Jobs
// of the first level are remembered by their inputs, others by their ranges of partitions. The runner pauses too, or one
// that cannot do anything would fail at everything. Guarded by Tenure.mu.
type setbacks struct {
	bundles map[id.Bundle]setback
	ranges  []rangeSetback
	corrupt map[id.Bundle]bool // left out while this owner is one
	runners map[id.Session]setback
}

type rangeSetback struct {
	kind        job.Kind
	first, last id.TopicPartition
	setback
}

func newSetbacks() *setbacks {
	return &setbacks{bundles: map[id.Bundle]setback{}, corrupt: map[id.Bundle]bool{}, runners: map[id.Session]setback{}}
}

// fail remembers that a job failed.
func (s *setbacks) fail(j *metadata.JobInfo, now time.Time) {
	s.runners[j.Runner] = s.runners[j.Runner].again(now, runnerPause)
	if firstLevel(j) {
		for _, b := range j.Inputs {
			s.set(b, s.bundles[b].again(now, lastPause))
		}
		return
	}
	set := s.of(j.Kind, j.First, j.Last).again(now, lastPause)
	s.ranges = append(s.without(j), rangeSetback{kind: j.Kind, first: j.First, last: j.Last, setback: set})
	if len(s.ranges) > maxRanges {
		s.ranges = s.ranges[1:]
	}
}

// succeed forgets the setbacks of what a job has done.
func (s *setbacks) succeed(j *metadata.JobInfo) {
	delete(s.runners, j.Runner)
	if firstLevel(j) {
		for _, b := range j.Inputs {
			delete(s.bundles, b)
		}
		return
	}
	s.ranges = s.without(j)
}

// without gives the ranges but those that lie within the job's.
func (s *setbacks) without(j *metadata.JobInfo) []rangeSetback {
	return slices.DeleteFunc(s.ranges, func(r rangeSetback) bool {
		return r.kind == j.Kind && j.Covers(r.first) && j.Covers(r.last)
	})
}

func (s *setbacks) set(b id.Bundle, to setback) {
	if _, known := s.bundles[b]; known || len(s.bundles) < maxSetbacks {
		s.bundles[b] = to
	}
}

// of gives the worst setback of a range of partitions.
func (s *setbacks) of(kind job.Kind, first, last id.TopicPartition) (worst setback) {
	for _, r := range s.ranges {
		if r.kind == kind && r.first.Compare(last) <= 0 && first.Compare(r.last) <= 0 {
			worst.failures = max(worst.failures, r.failures)
			if r.until.After(worst.until) {
				worst.until = r.until
			}
		}
	}
	return worst
}

// prune forgets what can be forgotten: bundles that are not live any more.
func (s *setbacks) prune(live func(id.Bundle) bool, now time.Time) {
	for b := range s.bundles {
		if !live(b) {
			delete(s.bundles, b)
		}
	}
	for b := range s.corrupt {
		if !live(b) {
			delete(s.corrupt, b)
		}
	}
	s.ranges = slices.DeleteFunc(s.ranges, func(r rangeSetback) bool { return now.Sub(r.until) > 2*lastPause })
}

func firstLevel(j *metadata.JobInfo) bool { return j.Kind == job.Compact && j.Level == 1 }
