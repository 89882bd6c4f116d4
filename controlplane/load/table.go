// Package load keeps how much the agents of a virtual cluster have to do, as they tell their owner once a second. It is
// the soft state of one tenure: it never reaches the log, and a new owner knows it again within a second or two.
package load

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

// Fresh is how long a report counts: an agent that was silent for longer is left out of what Zones gives.
const Fresh = 5 * time.Second

// Bounds of what is taken in.
const (
	// maxAgents bounds the agents of a virtual cluster that are kept.
	maxAgents = 10_000
	// maxShare bounds the shares in a report: an agent can have more to do than it may use, but not a thousand times.
	maxShare = 1000
	// maxRate bounds the bytes per second in a report: beyond what any machine's network carries.
	maxRate = 1 << 40
)

// Zone is the agents of one zone.
type Zone struct {
	Name   string  // "" for agents without one
	Agents []Agent // in order of their sessions, at least one
}

// Agent is what one agent said last.
type Agent struct {
	Session id.Session
	Load    *api.Load // not to be changed
	Heard   time.Time // when it said so
}

// Table is what the agents of one virtual cluster said last. It is safe for concurrent use; its zero value is empty.
type Table struct {
	mu struct {
		sync.Mutex
		agents map[id.Session]entry
	}
}

type entry struct {
	zone string
	Agent
}

// Heard takes a report of an agent, which must not be changed afterwards. It tells whether the report was taken: one with
// figures that cannot be (NaN, negative, beyond all bounds) is not and the one before stays, and an agent that is new while
// there are too many is not kept.
func (t *Table) Heard(session id.Session, zone string, load *api.Load, at time.Time) (taken bool) {
	if !sensible(load) {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.agents == nil {
		t.mu.agents = map[id.Session]entry{}
	}
	if _, known := t.mu.agents[session]; !known && len(t.mu.agents) >= maxAgents {
		return false
	}
	t.mu.agents[session] = entry{zone: zone, Agent: Agent{Session: session, Load: load, Heard: at}}
	return true
}

// sensible tells whether every figure of a report can be.
func sensible(l *api.Load) bool {
	if l == nil {
		return false
	}
	within := func(v, most float64) bool { return v >= 0 && v <= most } // false for NaN
	return within(l.Cpu, maxShare) && within(l.Network, maxShare) && within(l.Buffers, maxShare) &&
		within(l.ProduceBytesPerSecond, maxRate)
}

// Forget drops an agent: its session has closed, or it drains.
func (t *Table) Forget(session id.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.mu.agents, session)
}

// Zones gives the agents heard of within the last 5 s, by zone, zones in order of their names.
func (t *Table) Zones(now time.Time) []Zone {
	t.mu.Lock()
	byZone := map[string][]Agent{}
	for _, e := range t.mu.agents {
		if now.Sub(e.Heard) <= Fresh {
			byZone[e.zone] = append(byZone[e.zone], e.Agent)
		}
	}
	t.mu.Unlock()
	zones := make([]Zone, 0, len(byZone))
	for _, name := range slices.Sorted(maps.Keys(byZone)) {
		agents := byZone[name]
		slices.SortFunc(agents, func(a, b Agent) int { return cmp.Compare(a.Session, b.Session) })
		zones = append(zones, Zone{Name: name, Agents: agents})
	}
	return zones
}
