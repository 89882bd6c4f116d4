package errand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// maxOpen is the maximum number of errands of a virtual cluster that agents have. Further callers wait.
	maxOpen = 8
	// maxAttempts is the maximum number of times that one errand is sent to an agent.
	maxAttempts = 3
	// patience is the time that an agent has for an errand.
	patience = 30 * time.Second
	// avoidance is the time for which an agent that failed comes behind the others.
	avoidance = time.Minute
)

// ErrNoAgent is returned if no connected agent takes errands.
var ErrNoAgent = errors.New("no agent that takes the errand is connected")

var (
	errSilent = errors.New("the agent did not answer in time")
	errLeft   = errors.New("the stream of the agent ended")
	errAnswer = errors.New("the answer does not fit the errand")
)

// Agents are the agents connected to the owner, as far as they take errands.
type Agents interface {
	// ErrandTakers returns the connected agents with the jobs role, in any order. Agents that drain and those of protocols without
	// errands are not among them.
	ErrandTakers() []id.Session
	// MarkTakers is ErrandTakers for MarkBucket, which agents of any role take.
	MarkTakers() []id.Session
	// GiveErrand sends an errand. It returns false if the agent is not connected.
	GiveErrand(agent id.Session, e *api.Errand) bool
}

// Config of a Dispatcher.
type Config struct {
	Log        *zap.Logger
	Registerer prometheus.Registerer
}

// Dispatcher gives errands to the agents of one virtual cluster. Its methods are safe for concurrent use.
type Dispatcher struct {
	log     *zap.Logger
	metrics *metrics
	places  chan struct{} // has one item for each open errand

	mu struct {
		sync.Mutex
		agents Agents                   // of the newest tenure, nil before the first
		open   map[uint64]*attempt      // by id
		avoid  map[id.Session]time.Time // end of the avoidance of agents that failed lately
	}
}

// attempt is one errand at one agent.
type attempt struct {
	id      uint64
	agent   id.Session
	outcome chan outcome // has room for one
}

type outcome struct {
	done *api.ErrandDone
	err  error
}

// New returns a Dispatcher without agents.
func New(cfg Config) *Dispatcher {
	d := &Dispatcher{
		log: cmp.Or(cfg.Log, zap.NewNop()).With(zap.String("part", "errands")), places: make(chan struct{}, maxOpen),
		metrics: newMetrics(cmp.Or[prometheus.Registerer](cfg.Registerer, prometheus.NewRegistry())),
	}
	d.mu.open, d.mu.avoid = map[uint64]*attempt{}, map[id.Session]time.Time{}
	return d
}

// Tenure replaces the agents by those of a new tenure.
func (d *Dispatcher) Tenure(a Agents) *Dispatcher {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.agents = a
	return d
}

// Done takes an agent's answer. It does not block.
func (d *Dispatcher) Done(agent id.Session, done *api.ErrandDone) {
	d.mu.Lock()
	defer d.mu.Unlock()
	a := d.mu.open[done.Id]
	if a == nil || a.agent != agent {
		d.metrics.dropped.Inc()
		return
	}
	d.settle(a, outcome{done: done})
}

// Left notes that the stream of an agent ended. It does not block.
func (d *Dispatcher) Left(agent id.Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.mu.open {
		if a.agent == agent {
			d.settle(a, outcome{err: errLeft})
		}
	}
}

// settle ends an open attempt. Called with mu held.
func (d *Dispatcher) settle(a *attempt, o outcome) {
	if d.mu.open[a.id] != a {
		return
	}
	delete(d.mu.open, a.id)
	d.metrics.open.Set(float64(len(d.mu.open)))
	a.outcome <- o
}

// do has one of the takers do an errand, of which every attempt gets a copy with an id. fits reports whether an answer without an error fits the
// errand. An answer that does not is dropped, and the attempt has failed. do returns ErrNoAgent if there is no agent to ask.
func (d *Dispatcher) do(ctx context.Context, takers func(Agents) []id.Session, errand func(id uint64) *api.Errand, fits func(*api.ErrandDone) bool) (*api.ErrandDone, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer func() { <-d.places }()
	failed := map[id.Session]bool{}
	var last error
	for range maxAttempts {
		a, err := d.begin(takers, failed)
		if err != nil {
			return nil, cmp.Or(last, err)
		}
		done, err := d.ask(ctx, a, errand(a.id))
		if err == nil && !fits(done) {
			d.metrics.dropped.Inc()
			err = errAnswer
		}
		d.metrics.count(err)
		if err == nil {
			return done, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		d.log.Info("errand failed", zap.Uint32("session", uint32(a.agent)), zap.Error(err))
		d.shun(a.agent)
		if !errors.Is(err, errLeft) { // without an earlier error, and if no agent is left, that is the error
			last = fmt.Errorf("errand of the agent with session %d: %w", a.agent, err)
			failed[a.agent] = true
		}
	}
	return nil, cmp.Or(last, errLeft)
}

// enter takes a place for an errand.
func (d *Dispatcher) enter(ctx context.Context) error {
	d.metrics.waiting.Inc()
	defer d.metrics.waiting.Dec()
	select {
	case d.places <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// begin opens an attempt at the taker with the fewest open errands, except those in failed. Agents that failed lately come last.
func (d *Dispatcher) begin(takersOf func(Agents) []id.Session, failed map[id.Session]bool) (*attempt, error) {
	d.mu.Lock()
	agents := d.mu.agents
	d.mu.Unlock()
	if agents == nil {
		return nil, ErrNoAgent
	}
	takers := takersOf(agents)
	rand.Shuffle(len(takers), func(i, j int) { takers[i], takers[j] = takers[j], takers[i] })
	d.mu.Lock()
	defer d.mu.Unlock()
	var best id.Session
	for _, s := range takers {
		if !failed[s] && (best == 0 || d.cost(s) < d.cost(best)) {
			best = s
		}
	}
	if best == 0 {
		return nil, ErrNoAgent
	}
	a := &attempt{id: rand.Uint64(), agent: best, outcome: make(chan outcome, 1)}
	d.mu.open[a.id] = a
	d.metrics.open.Set(float64(len(d.mu.open)))
	return a, nil
}

// cost orders agents: the one with the lowest cost is asked first. Called with mu held.
func (d *Dispatcher) cost(agent id.Session) (n int) {
	for _, a := range d.mu.open {
		if a.agent == agent {
			n++
		}
	}
	if time.Now().Before(d.mu.avoid[agent]) {
		n += maxOpen
	}
	return n
}

// shun puts an agent behind the others for a while.
func (d *Dispatcher) shun(agent id.Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	for s, until := range d.mu.avoid {
		if !now.Before(until) {
			delete(d.mu.avoid, s)
		}
	}
	d.mu.avoid[agent] = now.Add(avoidance)
}

// ask sends an attempt and waits for its outcome.
func (d *Dispatcher) ask(ctx context.Context, a *attempt, e *api.Errand) (*api.ErrandDone, error) {
	d.mu.Lock()
	agents := d.mu.agents
	d.mu.Unlock()
	if !agents.GiveErrand(a.agent, e) {
		d.end(a, errLeft)
	}
	timer := time.AfterFunc(patience, func() { d.end(a, errSilent) })
	defer timer.Stop()
	defer context.AfterFunc(ctx, func() { d.end(a, ctx.Err()) })()
	o := <-a.outcome
	switch {
	case o.err != nil:
		return nil, o.err
	case o.done.Error != "":
		return nil, errors.New(api.CutErrandError(o.done.Error))
	}
	return o.done, nil
}

func (d *Dispatcher) end(a *attempt, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settle(a, outcome{err: err})
}
