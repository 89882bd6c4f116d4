package zonewriter

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

const (
	// tick is how often loads are looked at.
	tick = time.Second
	// planInterval is how often plans follow the rates, unless more writers are needed.
	planInterval = 10 * time.Second
	// smoothing is the time constant of the mean that plans go by.
	smoothing = 10 * time.Second
	// learning is how long a new owner waits for the agents of a zone to say their load.
	learning = 3 * time.Second
	// joining is how long an agent that has come is left out until it says its load.
	joining = 3 * time.Second
	// silence is how long an agent may say nothing and still get other agents' batches.
	silence = 3 * time.Second
)

// Tenure plans for the length of one ownership. Its methods, but for Run, only note what happened.
type Tenure struct {
	rates   Rates
	log     *zap.Logger
	metrics *metrics
	loads   *load.Table
	agents  Agents
	kick    chan struct{} // holds a token when a plan may have to change, or an agent has to be told
	over    atomic.Bool

	mu struct {
		sync.Mutex
		members map[id.Session]*member
		plans   map[string]Plan // by zone
		begun   time.Time       // since when what agents say is heard
		planned time.Time       // when plans followed the rates last
	}
}

// member is an agent that writes.
type member struct {
	zone  string
	peer  string    // where other agents reach it, "" if nowhere
	since time.Time // when it became one
	takes bool      // as it said last
	heard time.Time // when it did; zero: not in this tenure
	rate  float64   // smoothed, bytes per second
	told  told      // on its stream; zero: nothing
}

// told is what an agent was told.
type told struct {
	writer id.Session
	share  float64
}

func newTenure(p *Planner, loads *load.Table, agents Agents) *Tenure {
	t := &Tenure{
		rates: p.cfg.Rates, log: p.cfg.Log, metrics: p.metrics, loads: loads, agents: agents, kick: make(chan struct{}, 1),
	}
	t.mu.members, t.mu.plans = map[id.Session]*member{}, map[string]Plan{}
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
		if !info.Shown() || info.Roles != 0 && info.Roles&metadata.RoleProduce == 0 {
			continue
		}
		m := before[info.ID]
		if m == nil {
			m = &member{zone: info.Zone, peer: info.Peer, since: time.Now()}
		}
		t.mu.members[info.ID] = m
	}
	t.wake()
}

// Connected notes that an agent has a new stream: what it was told on the one before counts no more, since the agent may
// have missed it. It does not block.
func (t *Tenure) Connected(agent id.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.mu.members[agent]; m != nil {
		m.told = told{}
		t.wake()
	}
}

// Heard notes that the table of loads has a report of an agent's. It does not block.
func (t *Tenure) Heard(agent id.Session, takes bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.mu.members[agent]; m != nil && (m.takes != takes || time.Since(m.heard) > silence) {
		t.wake() // the round looks it up
	}
}

func (t *Tenure) wake() {
	select {
	case t.kick <- struct{}{}:
	default:
	}
}

// Run plans and tells agents until ctx ends.
func (t *Tenure) Run(ctx context.Context) {
	defer t.metrics.clear()
	defer t.over.Store(true)
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.kick:
		case <-ticker.C:
		}
		now := time.Now()
		if lost := now.Sub(last) - tick; lost > tick {
			// The process stood still, and what agents said meanwhile may be waiting to be read.
			t.startOver(now, lost)
		}
		last = now
		t.round(now)
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

// round brings every zone's plan up to date and tells the agents what has changed for them.
func (t *Tenure) round(now time.Time) {
	for _, message := range t.plan(now) {
		if !t.agents.TellZoneWriter(message.agent, message.writer, message.share) {
			t.missed(message.agent)
		}
	}
}

// message is what one agent is to be told.
type message struct {
	agent id.Session
	told
}

// plan gives what is to be told to whom, and takes it for told.
func (t *Tenure) plan(now time.Time) (messages []message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sample(now)
	due := now.Sub(t.mu.planned) >= planInterval
	if due {
		t.mu.planned = now
	}
	zones := t.zones(now)
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		if t.settled(name, now) {
			t.planZone(name, zones[name], due)
			messages = append(messages, t.untold(name)...)
		}
	}
	maps.DeleteFunc(t.mu.plans, func(name string, _ Plan) bool { return zones[name] == nil })
	t.metrics.show(t.mu.plans)
	return messages
}

// sample takes what agents have said since the last round into their mean rates.
func (t *Tenure) sample(now time.Time) {
	for _, zone := range t.loads.Zones(now) {
		for _, a := range zone.Agents {
			m := t.mu.members[a.Session]
			if m == nil || !a.Heard.After(m.heard) {
				continue
			}
			weight := 1.0
			if !m.heard.IsZero() {
				weight = -math.Expm1(-a.Heard.Sub(m.heard).Seconds() / smoothing.Seconds())
			}
			m.rate += weight * (a.Load.ProduceBytesPerSecond - m.rate)
			m.heard, m.takes = a.Heard, a.Load.TakesBatches
		}
	}
}

// zones gives the agents of each zone as Assign takes them. One that has just come is left out until it says its load,
// which is a matter of milliseconds, so that coming makes one plan and not two.
func (t *Tenure) zones(now time.Time) map[string][]Agent {
	zones := map[string][]Agent{}
	for session, m := range t.mu.members {
		if m.heard.IsZero() && now.Sub(m.since) < joining {
			continue
		}
		takes := m.takes && m.peer != "" && now.Sub(m.heard) <= silence
		zones[m.zone] = append(zones[m.zone], Agent{Session: session, Rate: m.rate, Takes: takes})
	}
	return zones
}

// settled tells whether enough is known of a zone to plan it. Until then its agents keep what the owner before told them.
func (t *Tenure) settled(zone string, now time.Time) bool {
	if _, planned := t.mu.plans[zone]; planned || now.Sub(t.mu.begun) >= learning {
		return true
	}
	for _, m := range t.mu.members {
		if m.zone == zone && m.heard.IsZero() {
			return false
		}
	}
	return true
}

// planZone plans one zone anew: at once if other agents than before take batches or write, or if more writers are
// needed, else if it is due.
func (t *Tenure) planZone(name string, agents []Agent, due bool) {
	before := t.mu.plans[name]
	next := Assign(agents, before, t.rates)
	reason := reasonOf(agents, before)
	if reason == reasonRates && !due && next.Writers() <= before.Writers() {
		return
	}
	if next.Share == before.Share && maps.Equal(next.Of, before.Of) {
		return
	}
	moved := next.movedFrom(before)
	t.mu.plans[name] = next
	t.metrics.changed(reason, moved)
	t.log.Debug("zone writers changed", zap.String("zone", name), zap.String("reason", reason),
		zap.Int("agents", len(agents)), zap.Int("writers", next.Writers()), zap.Int("moved", moved))
}

// reasonOf tells why a plan is made anew.
func reasonOf(agents []Agent, before Plan) string {
	if len(agents) != len(before.Of) {
		return reasonMembers
	}
	reason := reasonRates
	for _, a := range agents {
		place, ok := before.Of[a.Session]
		switch {
		case !ok:
			return reasonMembers
		case a.Takes == (place.Kind == Apart):
			reason = reasonReports
		}
	}
	return reason
}

// movedFrom counts the agents of both plans that have another writer.
func (p Plan) movedFrom(before Plan) (moved int) {
	for s, place := range p.Of {
		if was, ok := before.Of[s]; ok && was.Writer != place.Writer {
			moved++
		}
	}
	return moved
}

// untold gives what agents of a zone have to be told, and takes it for told. Agents that never said their load know no
// zone writers.
func (t *Tenure) untold(zone string) (messages []message) {
	plan := t.mu.plans[zone]
	for session, m := range t.mu.members {
		if m.zone != zone || m.heard.IsZero() {
			continue
		}
		if now := (told{writer: plan.Of[session].Writer, share: plan.Share}); now != m.told {
			m.told = now
			messages = append(messages, message{agent: session, told: now})
		}
	}
	return messages
}

// missed notes that an agent was not connected when it was to be told something.
func (t *Tenure) missed(agent id.Session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.mu.members[agent]; m != nil {
		m.told = told{}
	}
}
