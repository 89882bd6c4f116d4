package pattern

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
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

// Queue matches patterns with names. Jobs that have not run yet have every other turn, since most end in their first one; their clients take
// turns. The other jobs take turns.
// The zero value is a queue without jobs. Safe for concurrent use.
type Queue struct {
	maxRun time.Duration // 0 for MaxRun
	mu     struct {
		sync.Mutex
		running    bool
		old        bool              // an unfinished job has the next turn
		jobs       int               // also the one that runs
		fresh      map[string][]*job // by client
		clients    []string          // of fresh, the next one first
		waiting    int               // jobs in fresh
		unfinished []*job
		ended      []*job // made room for others
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
	ended   error // of a job that made room for another
}

// Match matches an expression with names, which must not change meanwhile. It calls done on the queue's goroutine with the names that
// match, in their order, or with an error of Compile, ErrTooSlow, ErrBusy, or that of ctx. At MaxJobs, the unfinished job that has run longest
// ends with ErrTooSlow; without one, the newest job of the client with most ends with ErrBusy. If the client itself is that one, Match returns
// ErrBusy and never calls done.
func (q *Queue) Match(ctx context.Context, client, source string, names iter.Seq[string], done func(matched []string, err error)) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.mu.jobs >= MaxJobs && !q.makeRoom(client) {
		return ErrBusy
	}
	q.mu.jobs++
	q.mu.waiting++
	if q.mu.fresh == nil {
		q.mu.fresh = make(map[string][]*job)
	}
	if len(q.mu.fresh[client]) == 0 {
		q.mu.clients = append(q.mu.clients, client)
	}
	q.mu.fresh[client] = append(q.mu.fresh[client], &job{ctx: ctx, source: source, names: names, done: done})
	if !q.mu.running {
		q.mu.running = true
		go q.run()
	}
	return nil
}

// makeRoom ends a job for one of a client, and reports whether there is one to end. Called with mu held.
func (q *Queue) makeRoom(client string) bool {
	if len(q.mu.unfinished) > 0 {
		longest := slices.MaxFunc(q.mu.unfinished, func(a, b *job) int { return cmp.Compare(a.ran, b.ran) })
		q.mu.unfinished = slices.DeleteFunc(q.mu.unfinished, func(j *job) bool { return j == longest })
		q.end(longest, ErrTooSlow)
		return true
	}
	if len(q.mu.clients) == 0 {
		return false
	}
	most := slices.MaxFunc(q.mu.clients, func(a, b string) int { return cmp.Compare(len(q.mu.fresh[a]), len(q.mu.fresh[b])) })
	jobs := q.mu.fresh[most]
	if len(jobs) <= len(q.mu.fresh[client])+1 { // also if it is the client itself
		return false
	}
	q.mu.fresh[most] = jobs[:len(jobs)-1]
	q.mu.waiting--
	q.end(jobs[len(jobs)-1], ErrBusy)
	return true
}

// end has a job that was taken out end with an error in the next turn. Called with mu held.
func (q *Queue) end(j *job, err error) {
	j.ended = err
	q.mu.ended = append(q.mu.ended, j)
	q.mu.jobs--
}

// first takes the next fresh job out. Its client goes to the back. Called with mu held.
func (q *Queue) first() *job {
	client := q.mu.clients[0]
	q.mu.clients = q.mu.clients[1:]
	jobs := q.mu.fresh[client]
	if len(jobs) > 1 {
		q.mu.fresh[client] = jobs[1:]
		q.mu.clients = append(q.mu.clients, client)
	} else {
		delete(q.mu.fresh, client)
	}
	q.mu.waiting--
	return jobs[0]
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
	switch {
	case len(q.mu.ended) > 0:
		next, q.mu.ended = q.mu.ended[0], q.mu.ended[1:]
	case q.mu.waiting > 0 && (!q.mu.old || len(q.mu.unfinished) == 0):
		next = q.first()
	case len(q.mu.unfinished) > 0:
		next, q.mu.unfinished = q.mu.unfinished[0], q.mu.unfinished[1:]
	}
	q.mu.jobs = q.mu.waiting + len(q.mu.unfinished)
	if next != nil && next.ended == nil {
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
	if j.ended != nil {
		j.end(nil, j.ended)
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
