// Package load keeps the latest load report of each agent. Agents report once a second, idle ones once in 12.5 s. The reports are the soft state of
// one tenure: they never reach the log, and a new owner has them again within a second or two.
package load

import (
	"maps"
	"sync"
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

// Times for which a report counts. Recent leaves out agents that were silent for longer.
const (
	fresh     = 5 * time.Second
	freshIdle = api.MaxRest
)

// Fresh returns the time for which a report counts, which is longer for idle agents.
func Fresh(l *api.Load) time.Duration {
	if l.Idle() {
		return freshIdle
	}
	return fresh
}

// Bounds of accepted reports.
const (
	// maxAgents bounds the agents of a virtual cluster in the table.
	maxAgents = 10_000
	// maxShare bounds the shares in a report: an agent can have more to do than it may use, but not a thousand times.
	maxShare = 1000
	// maxRate bounds the bytes per second in a report: beyond what any machine's network carries.
	maxRate = 1 << 40
	// maxUptime bounds an agent's uptime, in milliseconds: a century.
	maxUptime = 100 * 365 * 24 * 3600 * 1000
	// maxPuts bounds the PUTs in a report: a float64 counts exactly up to it.
	maxPuts = 1 << 53
)

// Agent is what one agent said last.
type Agent struct {
	Load  *api.Load // not to be changed
	Heard time.Time // when it said so
}

// Table is what the agents of one virtual cluster said last. It is safe for concurrent use; its zero value is empty.
type Table struct {
	mu struct {
		sync.Mutex
		agents map[id.Session]Agent
	}
}

// Heard takes a report of an agent, which must not be changed afterwards. Heard reports whether the report was taken: one with
// figures that cannot be (NaN, negative, beyond all bounds) is not and the one before stays, and an agent that is new while
// there are too many is not kept.
func (t *Table) Heard(session id.Session, load *api.Load, at time.Time) (taken bool) {
	if !sensible(load) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.agents == nil {
		t.mu.agents = map[id.Session]Agent{}
	}
	if _, known := t.mu.agents[session]; !known && len(t.mu.agents) >= maxAgents {
		return false
	}
	t.mu.agents[session] = Agent{Load: load, Heard: at}
	return true
}

// sensible tells whether every figure of a report can be.
func sensible(l *api.Load) bool {
	if l == nil {
		return false
	}
	within := func(v, most float64) bool { return v >= 0 && v <= most } // false for NaN
	return within(l.Cpu, maxShare) && within(l.Network, maxShare) && within(l.Buffers, maxShare) &&
		within(l.ProduceBytesPerSecond, maxRate) && within(l.PutBudget, maxRate) && within(l.PutsUnused, maxPuts) && l.PutsBySavings <= maxPuts &&
		l.GetUptimeMs() <= maxUptime
}

// Forget drops an agent: its session has closed, or it drains.
func (t *Table) Forget(session id.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.agents, session)
}

// Recent returns the agents whose last report still counts.
func (t *Table) Recent(now time.Time) map[id.Session]Agent {
	t.mu.Lock()
	defer t.mu.Unlock()
	recent := maps.Clone(t.mu.agents)
	maps.DeleteFunc(recent, func(_ id.Session, a Agent) bool { return now.Sub(a.Heard) > Fresh(a.Load) })
	return recent
}
