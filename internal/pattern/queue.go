package pattern

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"sync"
	"time"
)

const (
	// MaxJobs bounds the jobs that a Queue holds.
	MaxJobs = 1000
	// MaxRun bounds the time that a job runs.
	MaxRun = 10 * time.Second
	// MaxSteps bounds the instructions of a pattern times the bytes of a name. A match at the bound takes some 25 ms.
	MaxSteps = 250 * MaxInstructions
	// turn is the time after which the next job runs.
	turn = 10 * time.Millisecond
)

var (
	// ErrBusy is returned for a job beyond MaxJobs.
	ErrBusy = errors.New("too many regular expressions wait to be matched")
	// ErrTooSlow ends a job after MaxRun, or at a name that exceeds MaxSteps.
	ErrTooSlow = errors.New("matching the regular expression takes too long")
)

// Queue matches patterns with names. Jobs that have not run yet have every other turn, since most end in their first one. The others take turns.
// The zero value is a queue without jobs. Safe for concurrent use.
type Queue struct {
	maxRun time.Duration // 0 for MaxRun
	mu     struct {
		sync.Mutex
		running    bool
		old        bool // an unfinished job has the next turn
		jobs       int  // also the one that runs
		fresh      []*job
		unfinished []*job
	}
}

// job is an expression on its way over names.
type job struct {
	ctx    context.Context //nolint:containedctx // of the caller of Match
	source string
	names  iter.Seq[string]
	done   func(matched []string, err error)

	pattern Pattern
	next    func() (string, bool)
	stop    func()
	matched []string
	ran     time.Duration
}

// Match matches an expression with names, which must not change meanwhile. It calls done on the queue's goroutine with the names that
// match, in their order, or with an error of Compile, ErrTooSlow, or that of ctx. If Match returns an error (ErrBusy), it never calls done.
func (q *Queue) Match(ctx context.Context, source string, names iter.Seq[string], done func(matched []string, err error)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.jobs >= MaxJobs {
		return ErrBusy
	}
	q.mu.jobs++
	q.mu.fresh = append(q.mu.fresh, &job{ctx: ctx, source: source, names: names, done: done})
	if !q.mu.running {
		q.mu.running = true
		go q.run()
	}
	return nil
}

// run runs jobs until none is left.
func (q *Queue) run() {
	for j := q.take(nil); j != nil; {
		var unfinished *job
		if !j.run(cmp.Or(q.maxRun, MaxRun)) {
			unfinished = j
		}
		j = q.take(unfinished)
	}
}

// take returns the next job, nil if there is none. unfinished is the job that ran, nil if it has ended.
func (q *Queue) take(unfinished *job) (next *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if unfinished != nil {
		q.mu.unfinished = append(q.mu.unfinished, unfinished)
	}
	q.mu.old = !q.mu.old
	from := &q.mu.fresh
	if len(q.mu.fresh) == 0 || q.mu.old && len(q.mu.unfinished) > 0 {
		from = &q.mu.unfinished
	}
	if len(*from) > 0 {
		next, *from = (*from)[0], (*from)[1:]
	}
	q.mu.jobs = len(q.mu.fresh) + len(q.mu.unfinished)
	if next != nil {
		q.mu.jobs++
	}
	q.mu.running = next != nil
	return next
}

// run runs a job for a turn, and reports whether the job has ended.
func (j *job) run(maxRun time.Duration) (ended bool) {
	began := time.Now()
	if err := j.ctx.Err(); err != nil {
		j.end(nil, err)
		return true
	}
	if j.next == nil {
		var err error
		if j.pattern, err = Compile(j.source); err != nil {
			j.end(nil, err)
			return true
		}
		j.next, j.stop = iter.Pull(j.names)
	}
	for time.Since(began) < turn && j.ctx.Err() == nil {
		name, more := j.next()
		if !more {
			j.end(j.matched, nil)
			return true
		}
		if j.pattern.Size()*len(name) > MaxSteps {
			j.end(nil, ErrTooSlow)
			return true
		}
		if j.pattern.Match(name) {
			j.matched = append(j.matched, name)
		}
	}
	if j.ran += time.Since(began); j.ran >= maxRun {
		j.end(nil, ErrTooSlow)
		return true
	}
	return false
}

func (j *job) end(matched []string, err error) {
	if j.stop != nil {
		j.stop()
	}
	j.done(matched, err)
}
