package metadata

import (
	"iter"

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
	clean       *job.Bounds       // of a Clean job
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
	Clean       *job.Bounds       // of a Clean job; not to be changed
}

func (j *openJob) info(n id.Session) JobInfo {
	return JobInfo{
		ID: n, Kind: j.kind, Level: j.level, Runner: j.runner, First: j.first, Last: j.last, Inputs: j.inputs,
		StartedMs: j.startedMs, Clean: j.clean,
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
func (s *machine) startJob(c *StartJob, _ *Effects) Result {
	if e, ok := s.sessions.Get(c.Runner); !ok || e.closed {
		return Result{Err: ErrSessionClosed}
	}
	if c.Kind == job.Clean {
		if err := s.refuseCleaning(c); err != nil {
			return Result{Err: err}
		}
	}
	n := s.nextSession
	s.nextSession++
	j := &openJob{
		kind: c.Kind, level: c.Level, runner: c.Runner, first: c.First, last: c.Last, inputs: c.Inputs, startedMs: s.now,
	}
	if c.Kind == job.Clean && c.Clean != nil {
		bounds := c.Clean.Bounds
		j.clean = &bounds
	}
	s.jobs.Set(n, j)
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

func (s *machine) abortJob(c *AbortJob, _ *Effects) error {
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
	if j, ok := s.jobs.Delete(n); ok {
		s.ended.Set(n, endedWriter{opened: j.startedMs, ended: s.now})
	}
}
