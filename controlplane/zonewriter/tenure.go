package zonewriter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/internal/periodic"
	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/internal/putbudget"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// tick is how often loads are looked at.
	tick = time.Second
	// planInterval is how often plans follow the rates, unless more writers are needed.
	planInterval = 10 * time.Second
	// smoothing is the time constant of rates that fall.
	smoothing = 10 * time.Second
	// learning is how long a new owner waits for the agents of a zone to say their load.
	learning = 3 * time.Second
	// joining is how long an agent that has come is left out until it says its load.
	joining = 3 * time.Second
	// silence is how long an agent may say nothing and still get other agents' batches.
	silence = 3 * time.Second
)

// Tenure plans for the length of one ownership. Its methods, but for Start, only note what happened.
type Tenure struct {
	rates   Rates
	log     *zap.Logger
	metrics *metrics
	loads   *load.Table
	slows   func() bool
	agents  Agents
	rounds  periodic.Loop // woken when a plan may have to change, or an agent has to be told
	over    atomic.Bool

	mu struct {
		sync.Mutex
		members map[id.Session]*member
		plans   map[string]Plan // by zone; replaced whole, by rounds alone
		savings savings
		begun   time.Time // since when what agents say is heard
		planned time.Time // when plans followed the rates last
	}
}

// member is an agent that writes.
type member struct {
	zone  string
	peer  string    // where other agents reach it, "" if nowhere
	since time.Time // when it became one
	takes bool      // as it said last, as what follows
	// writer is the one that it was told last, whoever was the owner; 0: none.
	writer id.Session
	heard  time.Time // when it did; zero: not in this tenure
	rate   float64   // bytes per second; see sample
	told   told      // on its stream; zero: nothing
	budget putbudget.Report
	loan   putbudget.Loan
	// settled is when the newest report was taken into the savings. Zero: none since the loan began.
	settled time.Time
}

// told is the content of a message to an agent.
type told struct {
	writer id.Session
	share  float64
	limit  uint64 // of PUTs by savings
}

func newTenure(p *Planner, loads *load.Table, agents Agents) *Tenure {
	t := &Tenure{
		rates: p.cfg.Rates, log: p.cfg.Log, metrics: p.metrics, loads: loads, slows: p.cfg.Slows, agents: agents,
	}
	t.mu.members, t.mu.plans, t.mu.savings = map[id.Session]*member{}, map[string]Plan{}, savings{}
	t.mu.begun = time.Now()
	return t
}

// Members takes the agents that may write as the state has them, at the beginning and whenever the membership has
// changed. It does not block.
func (t *Tenure) Members(s *metadata.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.mu.members
	t.mu.members = make(map[id.Session]*member, len(before))
	for info := range s.Sessions() {
		if !info.Serves() || info.Roles != 0 && info.Roles&metadata.RoleProduce == 0 {
			continue
		}
		m := before[info.ID]
		if m == nil {
			m = &member{zone: info.Zone, peer: info.Peer, since: time.Now()}
		}
		t.mu.members[info.ID] = m
	}
	for session, m := range before {
		if t.mu.members[session] == nil {
			t.mu.savings.close(m)
		}
	}
	t.mu.savings.forget(t.mu.members)
	t.rounds.Wake()
}

// Connected notes that an agent has a new stream: what it was told on the one before counts no more, since the agent may
// have missed it. It does not block.
func (t *Tenure) Connected(agent id.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.mu.members[agent]; m != nil {
		m.told = told{}
		t.mu.savings.close(m)
		t.rounds.Wake()
	}
}

// Heard notes that the table of loads has a report of an agent's. It does not block.
func (t *Tenure) Heard(agent id.Session, takes bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.mu.members[agent]; m != nil && (m.takes != takes || time.Since(m.heard) > silence) {
		t.rounds.Wake() // the round looks it up
	}
}

// Start plans and tells agents until ctx ends. wait returns after the end.
func (t *Tenure) Start(ctx context.Context) (wait func()) {
	last := time.Now()
	t.rounds.Start(ctx, tick, func(context.Context) time.Duration {
		now := time.Now()
		if lost := now.Sub(last) - tick; lost > tick {
			// The process stood still, and what agents said meanwhile may be waiting to be read.
			t.startOver(now, lost)
		}
		last = now
		t.round(now)
		return tick
	})
	return func() {
		t.rounds.Wait()
		t.over.Store(true)
		t.metrics.clear()
	}
}

// startOver counts no silence of before now, after a time that was lost.
func (t *Tenure) startOver(now time.Time, lost time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.begun = t.mu.begun.Add(lost)
	for _, m := range t.mu.members {
		m.since = m.since.Add(lost)
		if !m.heard.IsZero() {
			m.heard = now
		}
	}
}

// missed notes that an agent was not connected when it was to be told something.
func (t *Tenure) missed(agent id.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.mu.members[agent]; m != nil {
		m.told = told{}
		t.mu.savings.close(m)
	}
}
