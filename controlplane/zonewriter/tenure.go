package zonewriter

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/internal/periodic"
	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/internal/putbudget"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// tick is how often loads are looked at while agents write.
	tick = time.Second
	// planInterval is how often plans follow the rates, unless more writers are needed.
	planInterval = 10 * time.Second
	// smoothing is the time constant of rates that fall.
	smoothing = 10 * time.Second
	// learning is how long a new owner waits for the agents of a zone to say their load.
	learning = 3 * time.Second
	// joining is how long an agent that has come is left out until it says its load.
	joining = 3 * time.Second
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
		rests   bool      // the next round is in planInterval, or once an agent reports more
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
	heard  time.Time     // when it did; zero: not in this tenure
	rate   float64       // bytes per second; see sample
	idle   bool          // by what it said last
	fresh  time.Duration // for which the last report counts; an agent that is silent for longer gets no other agents' batches
	// reported is when it reported, which a round may not have seen yet.
	reported time.Time
	told     told // on its stream; zero: nothing
	budget   putbudget.Report
	loan     putbudget.Loan
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
func (t *Tenure) Heard(agent id.Session, report *api.Load) {
	t.mu.Lock()
	defer t.mu.Unlock()
	m := t.mu.members[agent]
	if m == nil {
		return
	}
	now := time.Now()
	back := now.Sub(m.reported) > m.fresh
	m.reported = now
	if back || m.takes != report.TakesBatches || t.mu.rests && !m.idles(report) {
		t.rounds.Wake() // the round looks it up
	}
}

// idles reports whether an agent's clients write nothing, and the agent neither needs savings nor has spent any since the report before.
func (m *member) idles(report *api.Load) bool {
	return report.ProduceBytesPerSecond == 0 && report.PutsWanted == 0 && report.PutsBySavings == m.budget.Spent
}

// Start plans and tells agents until ctx ends. wait returns after the end.
func (t *Tenure) Start(ctx context.Context) (wait func()) {
	last, pause := time.Now(), tick
	t.rounds.Start(ctx, pause, func(context.Context) time.Duration {
		now := time.Now()
		if lost := now.Sub(last) - pause; lost > tick {
			// The process stood still, and what agents said meanwhile may be waiting to be read.
			t.startOver(now, lost)
		}
		messages := t.round(now)
		last, pause = now, t.rest(messages)
		return pause
	})
	return func() {
		t.rounds.Wait()
		t.over.Store(true)
		t.metrics.clear()
	}
}

// rest returns the pause before the next round. It is long if no agent writes and each knows all that it is to know. messages is the number of
// messages of the round before.
func (t *Tenure) rest(messages int) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.rests = messages == 0
	for _, m := range t.mu.members {
		t.mu.rests = t.mu.rests && m.idle && m.told != (told{})
	}
	if t.mu.rests {
		return planInterval
	}
	return tick
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
