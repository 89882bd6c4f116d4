package writer

import (
	"context"
	"math"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/slab"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/putbudget"
	"github.com/freshet-io/freshet/metadata/id"
)

// leastShare is the least share of the zone's PUT budget that a writer assumes.
const leastShare = 1e-4

// fastBurst is the time whose unused PUTs of fast batches are saved.
const fastBurst = 250 * time.Millisecond

// forever is a wait that only a wake-up ends.
const forever = time.Duration(math.MaxInt64)

// session holds the bundles of one agent session in order of n. Bundles are sealed and named in the order in which their
// batches arrived, stored in any order, and submitted for commit in order of n. When the session ends, only submitted
// commits outlive it: their clients still get the true result.
type session struct {
	w      *Writer
	id     id.Session
	prefix string
	wake   chan struct{} // buffered: loop looks again

	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	gaps   context.Context // of resubmissions; ends with the session, or earlier by drain
	noGaps context.CancelFunc

	mu struct {
		sync.Mutex
		closed   bool
		draining bool
		drained  chan struct{} // closed when draining and nothing is left
		budget   putbudget.Bucket
		fast     putbudget.Bucket // for seals that only fast batches ask for
		credit   putbudget.Credit
		spent    uint64     // of credit, as reported last
		short    bool       // since then, a parked window waited for a token
		company  bool       // a bundle was answered since the last seal by savings
		returned time.Time  // when a bundle was answered last
		open     *gathering // nil: nothing gathered
		before   fill       // of the bundle sealed last
		queue    []*sealed  // sealed, their PUT not begun
		bundles  []*sealed  // by n, without holes; from the oldest that is not gone
		last     uint32     // n of the newest bundle
		handed   uint32     // bundles up to this n were handed in, or never will be
		acked    uint32     // results up to this n were received
		putting  int        // PUTs under way
		blocked  bool       // the open bundle is due, but a bound was reached
		resub    int        // resubmissions under way
	}
}

func newSession(w *Writer, m *api.Welcome) *session {
	s := &session{w: w, id: id.Session(m.GetSession()), prefix: m.GetBundlePrefix(), wake: make(chan struct{}, 1)}
	s.ctx, s.cancel = context.WithCancel(w.life)
	s.gaps, s.noGaps = context.WithCancel(s.ctx)
	s.mu.drained = make(chan struct{})
	s.mu.last = max(m.GetNextN(), 1) - 1
	s.mu.handed, s.mu.acked = s.mu.last, s.mu.last
	s.mu.company = true
	return s
}

func (s *session) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// place copies the batch into the open bundle, and seals the bundle before or after by size. It waits for memory.
func (s *session) place(ctx context.Context, b *Batch, p *Produce, index int32) error {
	var fresh *slab.Slab // lent for this batch
	var shared bool
	for {
		placed, replace, err := s.tryPlace(b, p, index, fresh, shared)
		if err != nil && fresh != nil {
			fresh.Release()
		}
		if placed || err != nil {
			return err
		}
		if fresh, shared, err = lend(ctx, s.w.cfg.Pool, len(b.Bytes), replace); err != nil {
			return notTaken(err)
		}
	}
}

// tryPlace places the batch in the given memory, or in the rest of the open bundle's slab. replace reports whether that slab
// still has room for smaller batches.
func (s *session) tryPlace(b *Batch, p *Produce, index int32, fresh *slab.Slab, shared bool) (placed, replace bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.closed:
		return false, false, ErrSessionClosed
	case s.mu.draining:
		return false, false, ErrDraining
	case s.w.missed(b):
		return false, false, ErrNoStamp
	}
	if g := s.mu.open; g != nil && g.size+len(b.Bytes) > s.w.cfg.FlushBytes {
		s.seal(sealSize)
	}
	g := s.mu.open
	if fresh == nil && (g == nil || g.room(len(b.Bytes)) == nil) {
		return false, g != nil && g.current != nil, nil
	}
	if g == nil {
		g = newGathering(s.mu.before)
		s.mu.open = g
	}
	if g.since[b.Latency].IsZero() {
		s.poke() // it may be due earlier than it was
	}
	to := fresh
	if to == nil {
		to = g.room(len(b.Bytes))
	} else {
		g.take(fresh, shared)
	}
	g.add(b, to, p, index)
	switch {
	case g.size >= s.w.cfg.FlushBytes:
		s.seal(sealSize)
	case len(g.entries) >= s.w.cfg.FlushBatches:
		s.seal(sealBatches)
	}
	return true, false, nil
}

// seal names the open bundle, queues it for its PUT and charges the PUT budget. Called with mu held.
func (s *session) seal(why reason) {
	s.refill(time.Now())
	switch why {
	case sealFast:
		s.mu.fast.Charge()
	case sealSavings:
		s.mu.credit.Spend()
		s.mu.company = false
	default:
		s.mu.budget.Charge()
	}
	s.w.metrics.seals[why].Inc()
	s.name()
	s.poke()
}

// name assigns the next n to the open bundle and queues it. Called with mu held.
func (s *session) name() {
	g := s.mu.open
	s.mu.open, s.mu.before = nil, fill{len(g.entries), len(g.groups)}
	s.mu.blocked = false
	s.mu.last++
	b := newSealed(s, s.mu.last, g)
	if s.mu.handed+1 == b.n {
		close(b.turn)
	}
	s.mu.queue = append(s.mu.queue, b)
	s.mu.bundles = append(s.mu.bundles, b)
	s.w.metrics.unsettled.Set(float64(len(s.mu.bundles)))
}

// refill brings both budgets up to now. Called with mu held.
func (s *session) refill(now time.Time) (rate, fastRate float64) {
	cfg := &s.w.cfg
	share := min(max(cfg.Share(), leastShare), 1)
	rate, fastRate = cfg.PutRate*share, cfg.FastPutRate*share
	s.mu.budget.Refill(now, rate, max(cfg.PutBurst*share, 1))
	s.mu.fast.Refill(now, fastRate, max(fastRate*fastBurst.Seconds(), 1))
	return rate, fastRate
}

// loop seals by time and starts PUTs until the session or ctx ends.
func (s *session) loop(ctx context.Context) {
	timer := time.NewTimer(forever)
	defer timer.Stop()
	for {
		timer.Reset(s.step())
		select {
		case <-s.wake:
		case <-timer.C:
		case <-s.ctx.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// step seals the open bundle if it is due, starts PUTs up to the bounds, and returns the time until the next step.
func (s *session) step() time.Duration {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return forever
	}
	start := s.begin(nil) // first, since a queued bundle holds the sealing back
	wait := s.sealDue(time.Now())
	start = s.begin(start)
	s.mu.Unlock()
	for _, b := range start {
		s.w.tasks.Go(b.run)
	}
	return wait
}

// begin moves the bundles whose PUTs may begin from the queue to start. Called with mu held.
func (s *session) begin(start []*sealed) []*sealed {
	for len(s.mu.queue) > 0 && s.roomForPut() {
		start = append(start, s.mu.queue[0])
		s.mu.queue = s.mu.queue[1:]
		s.mu.putting++
	}
	return start
}

// roomForPut reports whether another PUT may begin. Called with mu held.
func (s *session) roomForPut() bool {
	return s.mu.putting < s.w.cfg.MaxPuts && s.unsettled() < s.w.cfg.MaxUnsettled
}

// unsettled returns the number of bundles from the oldest unanswered one to the newest whose PUT began. Called with mu held.
func (s *session) unsettled() int { return int(s.mu.last-s.mu.acked) - len(s.mu.queue) }

// sealDue seals the open bundle if that is due by time and returns the time until it is due (dueIn). While no PUT
// could begin, the bundle goes on gathering, which costs no latency and saves PUTs. Called with mu held.
func (s *session) sealDue(now time.Time) time.Duration {
	g := s.mu.open
	if g == nil {
		return forever
	}
	rate, fastRate := s.refill(now)
	d := s.dueIn(g, now, rate, fastRate)
	switch {
	case d.wait > 0 && !s.mu.draining && !g.flush:
		return d.wait
	case len(s.mu.queue) > 0 || !s.roomForPut():
		s.countBlocked()
	case s.mu.draining:
		s.seal(sealDrain)
	case g.flush && d.wait > 0:
		s.seal(sealFlush)
	default:
		s.noteShort(g, now, d.why)
		s.seal(d.why)
	}
	return forever
}

// flush seals the open bundle as soon as a PUT can begin.
func (s *session) flush() {
	s.mu.Lock()
	if s.mu.open != nil {
		s.mu.open.flush = true
	}
	s.mu.Unlock()
	s.poke()
}

// countBlocked counts once per bundle that a bound held its sealing back. Called with mu held.
func (s *session) countBlocked() {
	if s.mu.blocked {
		return
	}
	s.mu.blocked = true
	bound := waitPuts
	if s.unsettled() >= s.w.cfg.MaxUnsettled {
		bound = waitUnsettled
	}
	s.w.metrics.waits.WithLabelValues(bound).Inc()
}

// close ends the session. Batches that were not submitted for commit fail at once. The bundles' own goroutines release the
// memory once no PUT attempt reads it.
func (s *session) close() {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return
	}
	s.mu.closed = true
	if s.mu.open != nil {
		s.name() // so that it ends like the others
	}
	queued := s.mu.queue
	s.mu.queue = nil
	var lost []*sealed
	for _, b := range s.mu.bundles {
		if !b.submitted {
			lost = append(lost, b)
		}
	}
	s.mu.Unlock()
	s.cancel()
	for _, b := range lost {
		b.fail(ErrSessionClosed)
	}
	for _, b := range queued {
		b.drop()
	}
	s.w.log.Info("agent session ended", zap.Uint32("session", uint32(s.id)), zap.Int("bundles_lost", len(lost)))
}

// drain seals the open bundle and returns a channel that closes when everything is settled.
func (s *session) drain() <-chan struct{} {
	s.mu.Lock()
	s.mu.draining = true
	s.checkDrained()
	s.mu.Unlock()
	s.noGaps()
	s.poke()
	return s.mu.drained
}

// checkDrained closes the channel of drain if nothing is left. Called with mu held.
func (s *session) checkDrained() {
	if !s.mu.draining || s.mu.open != nil || len(s.mu.bundles) > 0 || s.mu.resub > 0 {
		return
	}
	select {
	case <-s.mu.drained:
	default:
		close(s.mu.drained)
	}
}
