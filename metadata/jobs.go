package metadata

import (
	"iter"
	"slices"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
)

// openJob is a background job that an agent works on. What exactly it rewrites is between planner and runner; the state
// keeps what it needs to judge the outcome, and so that nobody plans the same again.
type openJob struct {
	kind        job.Kind
	level       uint8 // of the bundles it writes
	runner      id.Session
	first, last id.TopicPartition // it touches no partition outside
	inputs      []id.Bundle       // of a Compact job, ascending
	startedMs   int64             // command time
	handedMs    int64             // command time of the first part of its outcome, 0 before
}

// JobInfo describes an open job.
type JobInfo struct {
	ID          id.Session
	Kind        job.Kind
	Level       uint8 // of the bundles it writes
	Runner      id.Session
	First, Last id.TopicPartition // it touches no partition outside
	Inputs      []id.Bundle       // bundles whose extents a Compact job rewrites, ascending; not to be changed
	StartedMs   int64             // command time
}

func (j *openJob) info(n id.Session) JobInfo {
	return JobInfo{
		ID: n, Kind: j.kind, Level: j.level, Runner: j.runner, First: j.first, Last: j.last, Inputs: j.inputs,
		StartedMs: j.startedMs,
	}
}

// Covers tells whether a partition is within the job's bounds.
func (j *JobInfo) Covers(tp id.TopicPartition) bool {
	return j.First.Compare(tp) <= 0 && tp.Compare(j.Last) <= 0
}

// Jobs gives the open jobs in the order they were started.
func (s *machine) Jobs() iter.Seq[JobInfo] {
	return func(yield func(JobInfo) bool) {
		s.jobs.Scan(func(n id.Session, j *openJob) bool { return yield(j.info(n)) })
	}
}

// Job gives an open job; false if it ended or never was.
func (s *machine) Job(n id.Session) (JobInfo, bool) {
	j, ok := s.jobs.Get(n)
	if !ok {
		return JobInfo{}, false
	}
	return j.info(n), true
}

// startJob opens a job. Its id is of the same counter as agent sessions, so the names of its bundles are its own for
// ever, and an ended job is to its runner what a closed session is to an agent.
func (s *machine) startJob(c *StartJob) Result {
	if e, ok := s.sessions.Get(c.Runner); !ok || e.closed {
		return Result{Err: ErrSessionClosed}
	}
	if c.Kind == job.Clean && s.cleaning(c.First, c.Last) {
		return Result{Err: ErrJobConflict}
	}
	n := s.nextSession
	s.nextSession++
	s.openWriter(n, true)
	s.jobs.Set(n, &openJob{
		kind: c.Kind, level: c.Level, runner: c.Runner, first: c.First, last: c.Last, inputs: c.Inputs, startedMs: s.now,
	})
	return Result{Value: n}
}

// cleaning tells whether an open job cleans a partition in these bounds.
func (s *machine) cleaning(first, last id.TopicPartition) (found bool) {
	s.jobs.Scan(func(_ id.Session, j *openJob) bool {
		found = j.kind == job.Clean && j.first.Compare(last) <= 0 && first.Compare(j.last) <= 0
		return !found
	})
	return found
}

func (s *machine) abortJob(c *AbortJob) error {
	if _, ok := s.jobs.Get(c.Job); !ok {
		return ErrUnknownJob
	}
	s.endJob(c.Job)
	return nil
}

// abortJobsOf ends what a closed session was to run: it would be refused anyway from now on (I9).
func (s *machine) abortJobsOf(runner id.Session) {
	var ended []id.Session
	s.jobs.Scan(func(n id.Session, j *openJob) bool {
		if j.runner == runner {
			ended = append(ended, n)
		}
		return true
	})
	for _, n := range ended {
		s.endJob(n)
	}
}

// endJob forgets a job, after which nothing in its name is taken any more.
func (s *machine) endJob(n id.Session) {
	s.jobs.Delete(n)
	s.endWriter(n)
}

// completeJob takes over what a job hands in, partition by partition: each is replaced where its extents still are what
// the job rewrote, and stays as it is elsewhere. The same again changes nothing. A bundle of the job may die at once, so
// the parts must come before its object could be deleted: later ones end the job.
func (s *machine) completeJob(c *CompleteJob) Result {
	j, ok := s.jobs.Get(c.Job)
	if ok && j.handedMs > 0 && s.now-j.handedMs >= reviveMs {
		s.endJob(c.Job)
		ok = false
	}
	if !ok {
		return Result{Err: ErrUnknownJob}
	}
	o, err := job.ParseOutcome(c.Outcome)
	if err != nil || !j.owns(c.Job, o) {
		return Result{Err: ErrInvalidOutcome}
	}
	if j.handedMs == 0 {
		begun := *j
		begun.handedMs = max(s.now, 1)
		s.jobs.Set(c.Job, &begun)
	}
	sw := swap{machine: s, job: j, freed: make(map[id.Bundle]counts)}
	for _, b := range o.Bundles {
		name := id.Submission{Session: c.Job, N: b.N}.Bundle()
		s.addExtents(name, b.Bytes, j.level, 0, 0) // dead, unless something takes
	}
	for i := range o.Partitions {
		sw.replace(&o.Partitions[i])
	}
	sw.release()
	if c.Last {
		s.endJob(c.Job)
	}
	return Result{Value: sw.result}
}

// owns tells whether an outcome names nothing but the job's own bundles and partitions.
func (j *openJob) owns(n id.Session, o *job.Outcome) bool {
	for i := range o.Partitions {
		r := &o.Partitions[i]
		if j.first.Compare(r.ID) > 0 || r.ID.Compare(j.last) > 0 || r.Extents[0].Bundle.Submission().Session != n {
			return false
		}
	}
	return true
}

// JobResult answers CompleteJob.
type JobResult struct {
	Replaced int // runs of extents that were
	Kept     int // runs that stay as they are, because their extents are not the job's inputs any more
}

// counts are extents and bytes of one bundle.
type counts struct{ extents, bytes uint32 }

// swap is one outcome being applied.
type swap struct {
	*machine
	job    *openJob
	freed  map[id.Bundle]counts // what left its bundle; looked up and taken in the order of replaced
	order  []id.Bundle          // keys of freed in the order of their first extent
	old    []extent.Extent      // scratch
	result JobResult
}

// replace swaps one run of extents for those that the job wrote. What the log start has passed meanwhile is left out.
func (w *swap) replace(r *job.Replacement) {
	e, ok := w.topics.Get(topicKey(r.ID.Topic))
	if !ok {
		w.result.Kept++
		return
	}
	p, ok := e.partition(r.ID.Partition)
	if !ok || p == nil || !w.matches(p, r) {
		w.result.Kept++
		return
	}
	w.result.Replaced++
	p = w.mutablePartition(w.mutableTopic(e), r.ID.Partition, p)
	added := r.Extents
	for len(added) > 0 && added[0].Last < p.logStart {
		added = added[1:]
	}
	p.extents.Replace(w.gen, r.From, r.To, added)
	for i := range added {
		x := &added[i]
		w.addExtents(x.Bundle, 0, w.job.level, 1, x.Length)
	}
	for i := range w.old {
		w.free(&w.old[i])
	}
	p.cleaned = max(p.cleaned, r.CleanedTo)
	if p.transactions != nil {
		for _, marker := range r.DroppedAborted {
			p.transactions.aborted.Delete(marker)
		}
	}
}

// matches collects the live extents of the run into old and tells whether they may be replaced: they begin and end
// where the run does, but for what is below the log start; and those of a Compact job are of its inputs, so that
// whatever else was done to them meanwhile wins. A Clean job has its partitions for itself.
func (w *swap) matches(p *partition, r *job.Replacement) bool {
	w.old = w.old[:0]
	ours := true
	p.extents.Ascend(r.From, func(x *extent.Extent) bool {
		if x.Base > r.To {
			return false
		}
		w.old = append(w.old, *x)
		if w.job.kind == job.Compact && x.Kind != extent.Marker {
			_, ours = slices.BinarySearch(w.job.inputs, x.Bundle)
		}
		return ours
	})
	if !ours || len(w.old) == 0 || w.old[len(w.old)-1].Last != r.To {
		return false
	}
	return w.old[0].Base == r.From || w.old[0].Base > r.From && p.logStart > r.From
}

// free notes that an extent is not referred to any more.
func (w *swap) free(x *extent.Extent) {
	if x.Kind == extent.Marker {
		w.load.Extents--
		return
	}
	c, ok := w.freed[x.Bundle]
	if !ok {
		w.order = append(w.order, x.Bundle)
	}
	w.freed[x.Bundle] = counts{extents: c.extents + 1, bytes: c.bytes + x.Length}
}

// release takes what was freed from its bundles, each once.
func (w *swap) release() {
	for _, b := range w.order {
		w.releaseExtents(b, w.freed[b].extents, w.freed[b].bytes)
	}
}
