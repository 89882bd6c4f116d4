package job

import (
	"maps"
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
	// unreadablePause is the time from the first unreadable bundle until jobs try all of them again.
	unreadablePause = 6 * time.Hour
	// maxSetbacks bounds the bundles that setbacks are remembered of, maxRanges the ranges of partitions, maxCleans the
	// partitions that could not be cleaned (4 MiB).
	maxSetbacks = 4096
	maxRanges   = 256
	maxCleans   = 1 << 16
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
// of the first level and those that reclaim are remembered by their inputs. Those of the second level are remembered by their ranges of
// partitions, and those that clean by their partition. The runner gets no further jobs of the kind for a while too, or one that cannot do anything would fail at
// everything. If the inputs are to blame, it does not pause. Guarded by Tenure.mu.
type setbacks struct {
	bundles map[id.Bundle]setback
	ranges  []rangeSetback // oldest first
	cleans  map[id.TopicPartition]setback
	runners map[runnerKind]setback
	// unreadable are bundles that jobs could not read, the first of them at since. suspects are bundles of which one runner
	// says so. Each round drops those that are not live, so the state's live bundles bound both.
	unreadable map[bundleKind]bool
	since      time.Time
	suspects   map[bundleKind]suspect
}

// bundleKind is a bundle as one kind of jobs finds it. Clients can write records that cannot be decompressed: they end a Clean job and no
// other, and the bundle is intact.
type bundleKind struct {
	bundle id.Bundle
	kind   job.Kind
	intact bool // only with Clean
}

// suspect is a bundle that one runner could not read, last at that time.
type suspect struct {
	runner id.Session
	at     time.Time
}

// runnerKind is a runner as to one kind of jobs: one that cannot clean may well compact.
type runnerKind struct {
	session id.Session
	kind    job.Kind
}

type rangeSetback struct {
	first, last id.TopicPartition
	setback
}

func newSetbacks() *setbacks {
	return &setbacks{
		bundles: map[id.Bundle]setback{}, cleans: map[id.TopicPartition]setback{}, unreadable: map[bundleKind]bool{},
		suspects: map[bundleKind]suspect{}, runners: map[runnerKind]setback{},
	}
}

// fail remembers that a job failed. byInputs says that unreadable inputs are to blame: compaction leaves those out, so the others need not
// wait.
func (s *setbacks) fail(j *lease, byInputs bool, now time.Time) {
	if byInputs && j.class != classClean {
		return
	}
	if r := (runnerKind{j.Runner, j.Kind}); !byInputs {
		s.runners[r] = s.runners[r].again(now, runnerPause)
	}
	switch j.class {
	case classFirst, classReclaim:
		for _, b := range j.Inputs {
			s.set(b, s.bundles[b].again(now, lastPause))
		}
	case classClean:
		s.setClean(j.First, s.cleans[j.First].again(now, lastPause))
	default:
		set := s.of(j.First, j.Last).again(now, lastPause)
		s.ranges = append(s.without(&j.JobInfo), rangeSetback{first: j.First, last: j.Last, setback: set})
		if len(s.ranges) > maxRanges {
			s.ranges = s.ranges[1:]
		}
	}
}

// succeed forgets the setbacks of what a job has done.
func (s *setbacks) succeed(j *lease) {
	delete(s.runners, runnerKind{j.Runner, j.Kind})
	switch j.class {
	case classFirst, classReclaim:
		for _, b := range j.Inputs {
			delete(s.bundles, b)
		}
	case classClean:
		delete(s.cleans, j.First)
	default:
		s.ranges = s.without(&j.JobInfo)
	}
}

// setClean remembers a partition that could not be cleaned. Of too many the one that is next to be tried again is forgotten.
func (s *setbacks) setClean(tp id.TopicPartition, to setback) {
	s.cleans[tp] = to
	if len(s.cleans) <= maxCleans {
		return
	}
	next := tp
	for p, set := range s.cleans {
		if set.until.Before(s.cleans[next].until) {
			next = p
		}
	}
	delete(s.cleans, next)
}

// without gives the ranges but those that lie within the job's.
func (s *setbacks) without(j *metadata.JobInfo) []rangeSetback {
	return slices.DeleteFunc(s.ranges, func(r rangeSetback) bool {
		return j.Covers(r.first) && j.Covers(r.last)
	})
}

func (s *setbacks) set(b id.Bundle, to setback) {
	if _, known := s.bundles[b]; known || len(s.bundles) < maxSetbacks {
		s.bundles[b] = to
	}
}

// accuse notes that a runner's job of a kind could not read a live bundle, and reports whether the bundle counts as unreadable. One runner
// alone may be what fails. So the bundle only counts once a second runner could not read it, or once the same runner failed twice and is the
// only one.
func (s *setbacks) accuse(b bundleKind, runner id.Session, only bool, now time.Time) bool {
	if s.unreadable[b] || s.unreadable[missingOrCorrupt(b.bundle, job.Compact)] {
		return true
	}
	if before, ok := s.suspects[b]; !ok || before.runner == runner && !only {
		s.suspects[b] = suspect{runner: runner, at: now}
		return false
	}
	delete(s.suspects, b)
	if len(s.unreadable) == 0 {
		s.since = now
	}
	s.unreadable[b] = true
	return true
}

// of gives the worst setback of a range of partitions.
func (s *setbacks) of(first, last id.TopicPartition) (worst setback) {
	for _, r := range s.ranges {
		if r.first.Compare(last) <= 0 && first.Compare(r.last) <= 0 {
			worst.failures = max(worst.failures, r.failures)
			if r.until.After(worst.until) {
				worst.until = r.until
			}
		}
	}
	return worst
}

func missingOrCorrupt(b id.Bundle, kind job.Kind) bundleKind {
	return bundleKind{bundle: b, kind: kind}
}

// known reports whether the owner has logged that a bundle counts as unreadable.
func (s *setbacks) known(b bundleKind) bool {
	if b.intact {
		return s.unreadable[b]
	}
	return s.unreadable[missingOrCorrupt(b.bundle, job.Compact)] || s.unreadable[missingOrCorrupt(b.bundle, job.Clean)]
}

// countUnreadable returns the number of bundles that count as missing or corrupt.
func (s *setbacks) countUnreadable() (n int) {
	for b := range s.unreadable {
		if !b.intact && (b.kind == job.Compact || !s.unreadable[missingOrCorrupt(b.bundle, job.Compact)]) {
			n++
		}
	}
	return n
}

// prune forgets setbacks that are over or of bundles that are not live any more, and the unreadable bundles once they have waited long
// enough. It reports whether it forgot an unreadable bundle: walks may have passed what is to be compacted now.
func (s *setbacks) prune(live func(id.Bundle) bool, now time.Time) (passed bool) {
	before, again := len(s.unreadable), now.Sub(s.since) >= unreadablePause
	maps.DeleteFunc(s.unreadable, func(b bundleKind, _ bool) bool { return again || !live(b.bundle) })
	maps.DeleteFunc(s.suspects, func(b bundleKind, by suspect) bool { return now.Sub(by.at) > 2*lastPause || !live(b.bundle) })
	maps.DeleteFunc(s.bundles, func(b id.Bundle, _ setback) bool { return !live(b) })
	s.ranges = slices.DeleteFunc(s.ranges, func(r rangeSetback) bool { return now.Sub(r.until) > 2*lastPause })
	maps.DeleteFunc(s.cleans, func(_ id.TopicPartition, set setback) bool { return now.Sub(set.until) > 2*lastPause })
	return len(s.unreadable) < before
}
