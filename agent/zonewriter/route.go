package zonewriter

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

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
	Silence    time.Duration
	Log        *zap.Logger
	Registerer prometheus.Registerer
}

// ApplyDefaults fills in what is zero.
func (c *Config) ApplyDefaults() {
	c.Patience = cmp.Or(c.Patience, time.Second)
	c.Silence = cmp.Or(c.Silence, DefaultSilence)
	if c.Open == nil {
		c.Open = func(id.Session) bool { return true }
	}
	if c.Fit == nil {
		c.Fit = func() bool { return true }
	}
	c.Log = cmp.Or(c.Log, zap.NewNop())
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

	// Of Run: the writer that could not be reached, and when that was said last.
	unreached struct {
		to   id.Session
		said time.Time
	}

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
	p, to, waiting := r.take(ctx, batches)
	if len(waiting) > 0 {
		to.sendHeld(ctx, p, waiting)
	}
	return p
}

// take hands the batches to the writer. It returns held batches, and the link that must send them once the intake is released.
func (r *Route) take(ctx context.Context, batches []writer.Batch) (p *writer.Produce, to *link, waiting []*held) {
	if err := r.intake.Acquire(ctx, 1); err != nil {
		return refused(len(batches), fmt.Errorf("%w: %w", writer.ErrNotTaken, err)), nil, nil
	}
	defer r.intake.Release(1)
	r.count(batches)
	if r.link != nil && !r.link.alive() {
		r.use(nil)
	}
	switch {
	case r.drained():
		return refused(len(batches), writer.ErrDraining), nil, nil
	case r.link == nil:
		p = r.cfg.Own.Add(ctx, batches)
		r.lane.enter(p, batches)
		return p, nil, nil
	}
	p = writer.NewProduce(len(batches), nil)
	r.lane.enter(p, batches)
	return p, r.link, r.hand(ctx, batches, p)
}

// hand sends the batches to the other agent, and returns the held ones. If a stamp does not come, all batches fail.
func (r *Route) hand(ctx context.Context, batches []writer.Batch, p *writer.Produce) (waiting []*held) {
	if !awaitStamps(ctx, batches) {
		for i := range batches {
			p.Resolve(int32(i), writer.Failed(writer.ErrNoStamp))
		}
		return nil
	}
	return r.link.add(ctx, batches, p)
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
