package zonewriter

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

// Config is what a Route is made of.
type Config struct {
	Own Own
	// Session gives this agent's session, 0 between sessions.
	Session func() id.Session
	// Agents is the number of agents in the zone, this one included.
	Agents func() int
	// Open tells whether another agent's session may still commit; nil: it always may.
	Open func(id.Session) bool
	// Address gives what clients reach another agent at, host:port, for the log; "" if it is not known. nil: it never is.
	Address func(id.Session) string
	// Fit tells whether this agent reaches the object store and the owner: it turns away from a writer that says that it
	// does not, unless neither does. nil: it always does.
	Fit func() bool
	// Dial opens a stream of Protocol to another agent of the zone; nil: there are none to hand over to.
	Dial func(ctx context.Context, to id.Session) (net.Conn, *bufio.Reader, error)
	// Patience is how long a turn to another writer waits for all that is under way. Default 1 s.
	Patience time.Duration
	// Silence is how long a writer may say nothing before it is given up. Default DefaultSilence.
	Silence time.Duration
	// RetryMin and RetryMax bound the pause between attempts to reach a writer. Default 100 ms and 5 s.
	RetryMin, RetryMax time.Duration
	Log                *zap.Logger
	Registerer         prometheus.Registerer
}

// ApplyDefaults fills in what is zero.
func (c *Config) ApplyDefaults() {
	def(&c.Patience, time.Second)
	def(&c.Silence, DefaultSilence)
	def(&c.RetryMin, 100*time.Millisecond)
	def(&c.RetryMax, 5*time.Second)
	if c.Open == nil {
		c.Open = func(id.Session) bool { return true }
	}
	if c.Fit == nil {
		c.Fit = func() bool { return true }
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
}

func def(v *time.Duration, d time.Duration) {
	if *v == 0 {
		*v = d
	}
}

// Route takes the batches of an agent's clients to the zone's writer. Run keeps it at the writer that the control plane
// names; before it runs, and whenever that cannot be reached, it is the agent's own. Methods are safe for concurrent use.
type Route struct {
	cfg     Config
	log     *zap.Logger
	metrics *routeMetrics
	intake  *semaphore.Weighted // one Add or turn at a time, in order of arrival
	changed chan struct{}       // capacity 1: told or drained changed
	bytes   atomic.Int64
	// handsOver tells whether another agent is the writer; the intake guards changes.
	handsOver atomic.Bool
	tasks     sync.WaitGroup // links

	// Of who holds the intake.
	link *link // nil: the agent's own writer
	lane *lane // of the writer that is handed to

	mu struct {
		sync.Mutex
		told     *api.ZoneWriter // nil: nothing
		draining bool
	}
}

// New makes a Route to the agent's own writer.
func New(cfg Config) *Route {
	cfg.ApplyDefaults()
	return &Route{
		cfg: cfg, log: cfg.Log, metrics: newRouteMetrics(cfg.Registerer), intake: semaphore.NewWeighted(1),
		changed: make(chan struct{}, 1), lane: new(lane),
	}
}

// Add takes the batches of one produce request in, in order; see writer.Writer.Add, which it is for whoever hands it
// batches. Batches of one partition are committed in the order of the Adds that brought them (I2).
func (r *Route) Add(ctx context.Context, batches []writer.Batch) *writer.Produce {
	if r.handsOver.Load() {
		awaitStamps(ctx, batches) // which must be known before they go; nobody else need wait for them
	}
	if err := r.intake.Acquire(ctx, 1); err != nil {
		return refused(len(batches), fmt.Errorf("%w: %w", writer.ErrNotTaken, err))
	}
	defer r.intake.Release(1)
	r.count(batches)
	if r.link != nil && !r.link.alive() {
		r.use(nil)
	}
	switch {
	case r.drained():
		return refused(len(batches), writer.ErrDraining)
	case r.link == nil:
		p := r.cfg.Own.Add(ctx, batches)
		r.lane.enter(p, batches)
		return p
	}
	p := writer.NewProduce(len(batches), nil)
	r.lane.enter(p, batches)
	r.hand(ctx, batches, p)
	return p
}

// hand sends the batches to the other agent, but for those whose stamp did not come.
func (r *Route) hand(ctx context.Context, batches []writer.Batch, p *writer.Produce) {
	if !awaitStamps(ctx, batches) {
		for i := range batches {
			p.Resolve(int32(i), writer.Failed(writer.ErrNoStamp))
		}
		return
	}
	r.link.add(ctx, batches, p)
}

// awaitStamps gives the batches that need one the index of their request's stamp; false if it did not come.
func awaitStamps(ctx context.Context, batches []writer.Batch) bool {
	for i := range batches {
		b := &batches[i]
		if b.Stamp == nil {
			continue
		}
		select {
		case <-b.Stamp.Done():
		case <-ctx.Done():
			return false
		}
		if b.Commit.AsOf = b.Stamp.Index(); b.Commit.AsOf == 0 {
			return false
		}
	}
	return true
}

func refused(n int, err error) *writer.Produce {
	p := writer.NewProduce(n, nil)
	for i := range n {
		p.Resolve(int32(i), writer.Failed(err))
	}
	return p
}

func (r *Route) count(batches []writer.Batch) {
	n := 0
	for i := range batches {
		n += len(batches[i].Bytes)
	}
	r.bytes.Add(int64(n))
	to := handedOwn
	if r.link != nil {
		to = handedOther
	}
	r.metrics.bytes.WithLabelValues(to).Add(float64(n))
}

// Bytes is how many bytes of batches were taken in so far.
func (r *Route) Bytes() int64 { return r.bytes.Load() }

// OnZoneWriter takes what the control plane tells. Part of client.ZoneWriterHandler.
func (r *Route) OnZoneWriter(m *api.ZoneWriter) { r.tell(m) }

// OnSessionClosed forgets it: the next session is told anew.
func (r *Route) OnSessionClosed() { r.tell(nil) }

func (r *Route) tell(m *api.ZoneWriter) {
	r.mu.Lock()
	r.mu.told = m
	r.mu.Unlock()
	r.poke()
}

func (r *Route) poke() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// Told is the writer that the control plane named last, 0 if it named none in this session.
func (r *Route) Told() id.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return id.Session(r.mu.told.GetSession())
}

// Share is the part of the zone's PUT budget that this agent's writer has: what it was told, or its share among all
// agents while it writes though it was not told to.
func (r *Route) Share() float64 {
	r.mu.Lock()
	told := r.mu.told
	r.mu.Unlock()
	if told != nil && id.Session(told.Session) == r.cfg.Session() && told.PutShare > 0 {
		return min(told.PutShare, 1)
	}
	return 1 / float64(max(r.cfg.Agents(), 1))
}

// wanted is the writer that batches are to go to; 0 is the agent's own.
func (r *Route) wanted() id.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.told == nil || r.mu.draining || r.cfg.Dial == nil {
		return 0
	}
	if to := id.Session(r.mu.told.Session); to != r.cfg.Session() {
		return to
	}
	return 0
}

func (r *Route) drained() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.draining
}

// Run turns to the writer that is wanted until ctx ends, and then lets the stream go: what is on its way gets a
// retriable error; call Drain first to lose nothing.
func (r *Route) Run(ctx context.Context) error {
	defer r.tasks.Wait()
	var now *link // what the route uses, unless it broke
	pauses := backoff.NewExponentialBackOff()
	pauses.InitialInterval, pauses.MaxInterval = r.cfg.RetryMin, r.cfg.RetryMax
	for ctx.Err() == nil {
		want, pause := r.wanted(), time.Duration(0)
		switch {
		case want == sessionOf(now) && (now == nil || r.usable(now)):
			pauses.Reset()
		case want == 0 || now != nil:
			if err := r.leave(ctx, now); err != nil {
				return nil // ctx ended
			}
			now = nil
			if want != 0 {
				pause = pauses.NextBackOff() // it broke, or is draining
			}
		default:
			l, err := r.connect(ctx, want)
			if err == nil {
				err = r.turn(ctx, l, time.Now())
			}
			if err != nil {
				pause = pauses.NextBackOff()
				break
			}
			now = l
			continue
		}
		r.wait(ctx, now, pause)
	}
	return nil
}

func sessionOf(l *link) id.Session {
	if l == nil {
		return 0
	}
	return l.session
}

// usable tells whether the stream stands and its writer takes batches.
func (r *Route) usable(l *link) bool {
	select {
	case <-l.draining:
		return false
	default:
		return l.alive() && (!l.unfit.Load() || !r.cfg.Fit())
	}
}

// wait returns when there may be something to do: at the latest after pause, if that is above 0.
func (r *Route) wait(ctx context.Context, now *link, pause time.Duration) {
	var broken, draining, again <-chan struct{}
	if now != nil {
		broken, draining = now.broken, now.draining
	}
	if pause > 0 {
		timed, cancel := context.WithTimeout(ctx, pause)
		defer cancel()
		again = timed.Done()
	}
	select {
	case <-ctx.Done():
	case <-r.changed:
	case <-broken:
	case <-draining:
	case <-again:
	}
}

// connect opens a stream to another agent that takes batches.
func (r *Route) connect(ctx context.Context, to id.Session) (*link, error) {
	l, err := r.open(ctx, to)
	if err != nil && ctx.Err() == nil {
		r.metrics.failures.Inc()
		r.log.Info("the zone's writer cannot be reached; this agent writes itself", nameOf(to, r.cfg.Address), zap.Error(err))
	}
	return l, err
}

func (r *Route) open(ctx context.Context, to id.Session) (*link, error) {
	conn, in, err := r.cfg.Dial(ctx, to)
	if err != nil {
		return nil, err
	}
	l := newLink(to, conn, in, r.cfg.Silence, r.poke)
	stop := context.AfterFunc(ctx, func() { l.fail(ctx.Err()) })
	name := nameOf(to, r.cfg.Address) // it may have left the membership when the stream ends
	r.tasks.Go(func() {
		defer stop()
		err := l.run()
		if l.used.Load() && !errors.Is(err, errTurned) && ctx.Err() == nil {
			r.metrics.failures.Inc()
			r.log.Warn("stream to the zone's writer is lost; this agent writes itself", name, zap.Error(err))
		}
	})
	select {
	case <-l.first:
	case <-l.broken:
		return nil, l.failure()
	}
	if !r.usable(l) {
		l.fail(errUnfit)
		return nil, errUnfit
	}
	return l, nil
}

// errUnfit: the zone's writer says that it does not reach the object store or the owner.
var errUnfit = errors.New("the zone's writer is cut off")

var errTurned = errors.New("turned to another writer")

// turn has all that comes from now on handed to l, nil being the agent's own writer, once what went before is settled. What
// another agent has after Patience, counted from began, and has not handed in for commit, it gives back; what is handed in
// and no sequence number keeps in order is waited for.
func (r *Route) turn(ctx context.Context, l *link, began time.Time) error {
	if err := r.intake.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("wait to turn to another writer: %w", err)
	}
	defer r.intake.Release(1)
	if l == r.link {
		return nil
	}
	if err := r.empty(ctx, began); err != nil {
		if l != nil {
			l.fail(err)
		}
		return fmt.Errorf("wait to turn to another writer: %w", err)
	}
	r.metrics.turnSeconds.Observe(time.Since(began).Seconds())
	r.use(l)
	return nil
}

// empty waits until nothing is under way that what follows could overtake. Called with the intake held.
func (r *Route) empty(ctx context.Context, began time.Time) error {
	if r.link != nil {
		r.link.flush()
	} else {
		r.cfg.Own.Flush()
	}
	all, err := r.lane.settle(ctx, r.cfg.Patience-time.Since(began))
	if err != nil || all {
		return err
	}
	if r.link != nil {
		r.link.withdraw()
	}
	return r.lane.settlePlain(ctx)
}

// leave turns to the agent's own writer.
func (r *Route) leave(ctx context.Context, from *link) error {
	if from != nil {
		r.tasks.Go(func() { r.hurry(from) })
	}
	return r.turn(ctx, nil, time.Now())
}

// hurry sees to it that a stream that is left ends, whatever its writer does: after Patience nobody waits for it to take
// something in; soon after that nobody waits for what sequence numbers keep in order, and it is given up if its writer's
// session is closed, since what such a session has not committed it never will (I9), but not if its writer is hidden or
// drains; and after leaveTimeout in any case.
func (r *Route) hurry(from *link) {
	began, tick := time.Now(), time.NewTicker(hurryEvery)
	defer tick.Stop()
	for {
		select {
		case <-from.broken:
			return
		case <-tick.C:
		}
		took := time.Since(began)
		if took < r.cfg.Patience {
			continue
		}
		from.leave()
		if took < r.cfg.Patience+lastResults {
			continue
		}
		if took >= leaveTimeout || !r.cfg.Open(from.session) {
			from.fail(errStuck)
			return
		}
		from.loseSequenced()
	}
}

const (
	// hurryEvery is how often a stream that is left is looked at.
	hurryEvery = 100 * time.Millisecond
	// leaveTimeout is the longest that a stream is kept that is left. An agent that the owner hears nothing of has lost
	// its session by then; one that hears nothing of the owner has had its commits settled.
	leaveTimeout = 5 * time.Second
)

var errStuck = errors.New("the zone's writer settles nothing")

// use changes the writer. Called with the intake held.
func (r *Route) use(l *link) {
	if r.link != nil {
		r.retire(r.link, r.lane)
	}
	r.link, r.lane = l, new(lane)
	r.handsOver.Store(l != nil)
	to := handedOwn
	if l != nil {
		to = handedOther
		l.used.Store(true)
	}
	r.metrics.turns.WithLabelValues(to).Inc()
	r.log.Info("batches go to another writer of the zone", nameOf(sessionOf(l), r.cfg.Address), zap.Bool("own", l == nil))
}

// retire lets the stream go when what is still on its way, if anything, is settled; leaveTimeout bounds that.
func (r *Route) retire(l *link, on *lane) {
	r.tasks.Go(func() {
		_, _ = on.settle(context.Background(), leaveTimeout) // at once if the stream broke: everything is settled then
		l.fail(errTurned)
	})
}

// Drain takes no more batches and waits until all that were handed over are settled, or ctx ends.
func (r *Route) Drain(ctx context.Context) error {
	r.mu.Lock()
	r.mu.draining = true
	r.mu.Unlock()
	defer r.poke()
	if err := r.intake.Acquire(ctx, 1); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	defer r.intake.Release(1)
	if r.link == nil {
		return nil // the agent's own writer is drained by itself
	}
	if err := r.empty(ctx, time.Now()); err != nil {
		return fmt.Errorf("drain: %w", err)
	}
	return nil
}
