package session

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// answerFunc takes what became of a submission: its result and log index, or a fault.
type answerFunc func(result *commit.Result, index uint64, fault *api.Error)

// sequence brings one session's submissions into the log in the order of n, whichever stream carried them. What is
// early is held until its turn; what was handed to the log already is answered from there. It outlives streams, not
// the tenure.
type sequence struct {
	t       *tenure
	session id.Session
	mu      struct {
		sync.Mutex
		next    uint32 // n to be handed to the log next
		held    map[uint32]*heldSubmission
		bytes   int
		running bool // a goroutine hands submissions to the log
		flying  int  // proposals on their way through the log
		astray  bool // next may not be what the state expects
	}
}

// heldSubmission waits for its turn, or for the log to take it.
type heldSubmission struct {
	command metadata.Command
	bytes   int
	until   uint64 // by the tenure's steady clock it may not be handed to the log later; 0: whenever
	answers []answerFunc
	timer   *time.Timer
}

func newSequence(t *tenure, session id.Session, next uint32) *sequence {
	q := &sequence{t: t, session: session}
	q.mu.next = next
	q.mu.held = map[uint32]*heldSubmission{}
	return q
}

// submit takes submission n. After until, by the tenure's steady clock, it is not handed to the log for the first time any
// more; 0: whenever. answer is called once, on some goroutine.
func (q *sequence) submit(n uint32, command metadata.Command, bytes int, until uint64, answer answerFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if h := q.mu.held[n]; h != nil {
		h.until = max(h.until, until)
		h.answers = append(h.answers, answer)
		return
	}
	if n < q.mu.next {
		// Settled, or on its way through the log: the command is answered by what the first one got (I3).
		q.mu.flying++
		q.t.spawnOr(func() { q.again(n, command, until, answer) }, func() { answer(nil, 0, ownerGone) })
		return
	}
	full := len(q.mu.held) >= q.t.limits.HeldCommits || q.mu.bytes+bytes > q.t.limits.HeldBytes
	if full && n != q.mu.next { // the next one is what those that fill the bounds wait for
		answer(nil, 0, fault(api.Error_THROTTLED, "too many commits are waiting for earlier ones"))
		return
	}
	h := &heldSubmission{command: command, bytes: bytes, until: until, answers: []answerFunc{answer}}
	h.timer = time.AfterFunc(q.t.limits.HoldTimeout, func() { q.expire(n, h) })
	q.mu.held[n] = h
	q.mu.bytes += bytes
	q.t.metrics.held.Inc()
	q.start()
}

// start hands the next submission to the log if it is there. Called with mu held.
func (q *sequence) start() {
	if q.mu.running || q.mu.held[q.mu.next] == nil {
		return
	}
	q.mu.running = true
	q.t.spawnOr(q.run, func() {})
}

// run hands submissions to the log in order as long as the next one is there. The answers are waited for elsewhere,
// so that later ones join the same or the next log entry.
func (q *sequence) run() {
	defer q.mend()
	for {
		n, h, err := q.turn()
		if h == nil {
			return
		}
		var proposal *owner.Proposal
		if err == nil {
			proposal, err = q.t.owner.Enqueue(q.t.ctx, h.command)
		}
		if err != nil {
			q.drop(n, h, err)
			return
		}
		q.mu.Lock()
		q.mu.next = n + 1
		q.mu.flying++
		answers := q.remove(n, h)
		q.mu.Unlock()
		q.t.spawnOr(func() { q.await(proposal, answers) }, func() { reply(answers, nil, 0, ownerGone) })
	}
}

// turn gives the submission whose turn it is, with an error if it comes too late; nil ends run.
func (q *sequence) turn() (n uint32, h *heldSubmission, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	h = q.mu.held[q.mu.next]
	if h == nil {
		q.mu.running = false
		return 0, nil, nil
	}
	h.timer.Stop()
	if q.t.late(h.until) {
		err = errLate
	}
	return q.mu.next, h, err
}

// remove takes a submission out and gives those who wait for it. Called with mu held.
func (q *sequence) remove(n uint32, h *heldSubmission) []answerFunc {
	h.timer.Stop()
	delete(q.mu.held, n)
	q.mu.bytes -= h.bytes
	q.t.metrics.held.Dec()
	return h.answers
}

// drop answers a submission that the log did not take; those behind it wait for it to come again.
func (q *sequence) drop(n uint32, h *heldSubmission, err error) {
	q.mu.Lock()
	q.mu.running = false
	answers := q.remove(n, h)
	q.mu.Unlock()
	if errors.Is(err, errLate) {
		q.t.metrics.commits.WithLabelValues(resultLate).Inc()
	}
	reply(answers, nil, 0, commandFault(err))
}

// await waits for a proposal's result.
func (q *sequence) await(proposal *owner.Proposal, answers []answerFunc) {
	result, index, err := proposal.Wait(q.t.ctx)
	if err == nil {
		err = result.Err
	}
	settled, _ := result.Value.(*commit.Result)
	q.landed(err == nil && settled != nil)
	if err != nil || settled == nil {
		reply(answers, nil, 0, commandFault(err))
		return
	}
	q.t.metrics.commits.WithLabelValues(resultSettled).Inc()
	reply(answers, settled, index, nil)
}

// landed notes that a proposal has come through the log, settled or not.
func (q *sequence) landed(settled bool) {
	q.mu.Lock()
	q.mu.flying--
	q.mu.astray = q.mu.astray || !settled
	q.mu.Unlock()
	q.mend()
}

// mend takes the next n from the state after a submission that was handed to the log was not settled there (the log was
// full). Not before everything has landed: what is on its way may settle more.
func (q *sequence) mend() {
	due := func() bool { return q.mu.astray && q.mu.flying == 0 && !q.mu.running }
	q.mu.Lock()
	now := due()
	q.mu.Unlock()
	if !now {
		return
	}
	_, _ = q.t.owner.Read(func(s *metadata.State) {
		info, ok := s.Session(q.session)
		if !ok {
			return
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		if due() {
			q.mu.astray = false
			q.mu.next = info.NextN
			q.start()
		}
	})
}

// again answers a submission that was handed to the log before: from the state, or, while it is on its way, by the
// result of the same command behind it. One that is late is not handed to the log again, since the first may not be
// settled there (the log was full): its agent asks until that is known.
func (q *sequence) again(n uint32, command metadata.Command, until uint64, answer answerFunc) {
	q.t.metrics.commits.WithLabelValues(resultStored).Inc()
	var stored *commit.Result
	read, err := q.t.owner.Read(func(s *metadata.State) {
		stored, _ = s.Settled(id.Submission{Session: q.session, N: n})
	})
	if err != nil || stored != nil {
		q.landed(true)
		answer(stored, read, commandFault(err))
		return
	}
	if q.t.late(until) {
		q.landed(true)
		answer(nil, 0, fault(api.Error_UNAVAILABLE, "a late commit is on its way through the log"))
		return
	}
	result, index, err := q.t.owner.Propose(q.t.ctx, command)
	if err == nil {
		err = result.Err
	}
	settled, _ := result.Value.(*commit.Result)
	q.landed(err == nil && settled != nil)
	if err != nil || settled == nil {
		answer(nil, 0, commandFault(err))
		return
	}
	answer(settled, index, nil)
}

// close ends the timers of what is held; nobody is answered any more.
func (q *sequence) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, h := range q.mu.held {
		h.timer.Stop()
		q.t.metrics.held.Dec()
	}
	clear(q.mu.held)
}

// expire answers a submission whose turn did not come.
func (q *sequence) expire(n uint32, h *heldSubmission) {
	q.mu.Lock()
	if q.mu.held[n] != h || n == q.mu.next && q.mu.running {
		q.mu.Unlock()
		return
	}
	answers := q.remove(n, h)
	q.mu.Unlock()
	q.t.metrics.commits.WithLabelValues(resultTimeout).Inc()
	reply(answers, nil, 0, fault(api.Error_TIMED_OUT, "an earlier commit of the session did not come"))
}

func reply(answers []answerFunc, result *commit.Result, index uint64, f *api.Error) {
	for _, answer := range answers {
		answer(result, index, f)
	}
}

var ownerGone = fault(api.Error_UNAVAILABLE, errTenureOver.Error())

// commandFault translates why a command has no result. Nil stays nil.
func commandFault(err error) *api.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errLate):
		return fault(api.Error_LATE, err.Error())
	case errors.Is(err, metalog.ErrLogFull), errors.Is(err, owner.ErrOverloaded):
		return fault(api.Error_THROTTLED, err.Error())
	case errors.Is(err, owner.ErrTooLarge), errors.Is(err, commit.ErrMalformed):
		return fault(api.Error_INVALID, err.Error())
	case errors.Is(err, context.DeadlineExceeded):
		return fault(api.Error_TIMED_OUT, err.Error())
	default:
		return fault(api.Error_UNAVAILABLE, err.Error())
	}
}

// spawnOr runs fn as part of the tenure, or gone on a goroutine of its own if that has ended.
func (t *tenure) spawnOr(fn, gone func()) {
	if !t.spawn(fn) {
		go gone()
	}
}
