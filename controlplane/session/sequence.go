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
// early is held until its turn; what was handed to the log already is answered from there. It outlives streams, not the tenure.
type sequence struct {
	t       *tenure
	session id.Session
	mu      struct {
		sync.Mutex
		next    uint32 // the lowest n that was not handed to the log
		held    map[uint32]*heldSubmission
		bytes   int
		running bool   // a goroutine hands submissions to the log
		flying  int    // proposals on their way through the log
		astray  bool   // next may be too high, since the log refused a submission
		stream  uint64 // the newest that handed something in
	}
}

// submission is what an agent hands in for one n.
type submission struct {
	n       uint32
	command metadata.Command
	bytes   int
	until   uint64 // by the tenure's steady clock it is not handed to the log for the first time later; 0: whenever
	stream  uint64 // that it came by
}

// heldSubmission waits for its turn, or for the log to take it.
type heldSubmission struct {
	submission
	answers []answerFunc
	timer   *time.Timer
	handing bool // to the log
}

func newSequence(t *tenure, info metadata.SessionInfo) *sequence {
	q := &sequence{t: t, session: info.ID}
	q.mu.held, q.mu.next = map[uint32]*heldSubmission{}, info.NextN
	return q
}

// submit takes a submission. answer is called once, on some goroutine.
func (q *sequence) submit(s submission, answer answerFunc) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if s.stream < q.mu.stream {
		// What came by an earlier stream, and was not looked at before: the agent may know by now that this n is late.
		answer(nil, 0, fault(api.Error_UNAVAILABLE, errReplaced.Error()))
		return
	}
	q.mu.stream = s.stream
	if h := q.mu.held[s.n]; h != nil {
		h.until = max(h.until, s.until)
		h.answers = append(h.answers, answer)
		return
	}
	if s.n < q.mu.next {
		// Settled, or on its way through the log: the command is answered by what the first one got (I3).
		q.mu.flying++
		q.t.spawnOr(func() { q.again(s, answer) }, func() { answer(nil, 0, ownerGone) })
		return
	}
	full := len(q.mu.held) >= q.t.limits.HeldCommits || q.mu.bytes+s.bytes > q.t.limits.HeldBytes
	if full && s.n != q.mu.next { // the next one is what those that fill the bounds wait for
		answer(nil, 0, fault(api.Error_THROTTLED, "too many commits are waiting for earlier ones"))
		return
	}
	h := &heldSubmission{submission: s, answers: []answerFunc{answer}}
	h.timer = time.AfterFunc(q.t.limits.HoldTimeout, func() { q.expire(h) })
	q.mu.held[s.n] = h
	q.mu.bytes += s.bytes
	q.t.metrics.held.Inc()
	q.start()
}

// start hands submissions to the log if the next one is there. Called with mu held.
func (q *sequence) start() {
	if q.mu.running || q.mu.held[q.mu.next] == nil {
		return
	}
	q.mu.running = true
	q.t.spawnOr(q.run, func() {})
}

// run hands submissions to the log as long as the next one is there. The answers are waited for elsewhere,
// so that later ones join the same or the next log entry.
func (q *sequence) run() {
	defer q.mend()
	for h, err := q.turn(); h != nil; h, err = q.turn() {
		var proposal *owner.Proposal
		if err == nil {
			proposal, err = q.t.owner.Enqueue(q.t.ctx, h.command)
		}
		answers := q.handed(h, err == nil)
		if err != nil {
			q.refuse(answers, err)
			continue
		}
		q.t.spawnOr(func() { q.await(proposal, answers) }, func() { reply(answers, nil, 0, ownerGone) })
	}
}

// turn returns the next submission if it is there, with an error if it comes too late; nil ends run.
func (q *sequence) turn() (h *heldSubmission, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if h = q.mu.held[q.mu.next]; h == nil {
		q.mu.running = false
		return nil, nil
	}
	h.handing = true
	if q.t.late(h.until) {
		err = errLate
	}
	return h, err
}

// handed notes that the log was handed the next submission, or did not take it, and returns those who wait for it. Those that wait
// for one which was not taken wait for it to come again.
func (q *sequence) handed(h *heldSubmission, taken bool) []answerFunc {
	q.mu.Lock()
	defer q.mu.Unlock()
	if taken {
		q.mu.flying++
		q.mu.next++
	}
	return q.remove(h)
}

// remove takes a submission out and gives those who wait for it. Called with mu held.
func (q *sequence) remove(h *heldSubmission) []answerFunc {
	h.timer.Stop()
	delete(q.mu.held, h.n)
	q.mu.bytes -= h.bytes
	q.t.metrics.held.Dec()
	return h.answers
}

// refuse answers a submission that the log did not take.
func (q *sequence) refuse(answers []answerFunc, err error) {
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

// mend takes what is settled from the state after a submission that was handed to the log was not settled there (the log was
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
			q.mu.astray, q.mu.next = false, info.NextN
			q.start()
		}
	})
}

// again answers a submission that was handed to the log before: from the state, or, while it is on its way, by the
// result of the same command behind it. One that is late is not handed to the log again, since the first may not be
// settled there (the log was full): its agent asks until that is known.
func (q *sequence) again(s submission, answer answerFunc) {
	q.t.metrics.commits.WithLabelValues(resultStored).Inc()
	var stored *commit.Result
	read, err := q.t.owner.Read(func(state *metadata.State) {
		stored, _ = state.Settled(id.Submission{Session: q.session, N: s.n})
	})
	if err != nil || stored != nil {
		q.landed(true)
		answer(stored, read, commandFault(err))
		return
	}
	if q.t.late(s.until) {
		q.landed(true)
		answer(nil, 0, fault(api.Error_UNAVAILABLE, "a late commit is on its way through the log"))
		return
	}
	result, index, err := q.t.owner.Propose(q.t.ctx, s.command)
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
func (q *sequence) expire(h *heldSubmission) {
	q.mu.Lock()
	if q.mu.held[h.n] != h || h.handing {
		q.mu.Unlock()
		return
	}
	answers := q.remove(h)
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
