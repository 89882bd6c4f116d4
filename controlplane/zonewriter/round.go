package zonewriter

import (
	"maps"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/load"
	"github.com/freshet-io/freshet/internal/putbudget"
	"github.com/freshet-io/freshet/metadata/id"
)

// round brings every zone's plan up to date and tells the agents what has changed for them. Plans are made without the
// lock, since the owner's Apply waits for it: with thousands of agents they take a while. round returns the number of messages to agents.
func (t *Tenure) round(now time.Time) (messages int) {
	zones, due := t.look(now)
	plans := make(map[string]Plan, len(zones))
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		plans[name] = t.plan(name, *zones[name], due)
	}
	for _, m := range t.adopt(plans, !t.slows()) {
		if !t.agents.TellZoneWriter(m.agent, m.writer, m.share, m.limit) {
			t.missed(m.agent)
		}
		messages++
	}
	return messages
}

// message is what one agent is to be told.
type message struct {
	agent id.Session
	told
}

// outlook is what a zone's next plan is made of.
type outlook struct {
	agents  []Agent
	before  Plan // if there is none in this tenure: what the agents say that they were told by the owner before
	planned bool // in this tenure
}

// look gives the zones that can be planned, and whether plans are to follow the rates.
func (t *Tenure) look(now time.Time) (zones map[string]*outlook, due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sample(now)
	if due = now.Sub(t.mu.planned) >= planInterval; due {
		t.mu.planned = now
	}
	zones = t.zones(now)
	maps.DeleteFunc(zones, func(name string, z *outlook) bool { return !z.planned && !t.settled(name, now) })
	return zones, due
}

// adopt makes plans the current ones, renews loans if lends is set, and returns the messages to agents, which count as sent.
// Agents that never reported their load know no zone writers.
func (t *Tenure) adopt(plans map[string]Plan, lends bool) (messages []message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.plans = plans
	t.settle(lends)
	t.metrics.show(plans, t.mu.savings)
	for session, m := range t.mu.members {
		plan := plans[m.zone]
		place, planned := plan.Of[session]
		now := told{writer: place.Writer, share: plan.Share, limit: m.loan.Limit()}
		if planned && !m.heard.IsZero() && now != m.told {
			m.told = now
			messages = append(messages, message{agent: session, told: now})
		}
	}
	return messages
}

// sample takes what agents have said since the last round: a rate that rises as it is, since agents say the mean of some
// seconds, one that falls by and by.
func (t *Tenure) sample(now time.Time) {
	for session, a := range t.loads.Recent(now) {
		m := t.mu.members[session]
		if m == nil || !a.Heard.After(m.heard) {
			continue
		}
		weight := 1.0
		if a.Load.ProduceBytesPerSecond < m.rate {
			weight = -math.Expm1(-a.Heard.Sub(m.heard).Seconds() / smoothing.Seconds())
		}
		m.rate += weight * (a.Load.ProduceBytesPerSecond - m.rate)
		m.heard, m.idle, m.takes, m.writer = a.Heard, m.idles(a.Load), a.Load.TakesBatches, id.Session(a.Load.ZoneWriter)
		m.fresh = load.Fresh(a.Load)
		m.budget = putbudget.Report{
			Rate: a.Load.PutBudget, Unused: a.Load.PutsUnused, Spent: a.Load.PutsBySavings, Wanted: uint64(a.Load.PutsWanted),
		}
	}
}

// zones gives each zone with its agents as Assign takes them. One that has just come is left out until it says its load,
// which is a matter of milliseconds, so that coming makes one plan and not two.
func (t *Tenure) zones(now time.Time) map[string]*outlook {
	zones := map[string]*outlook{}
	for session, m := range t.mu.members {
		if m.heard.IsZero() && now.Sub(m.since) < joining {
			continue
		}
		z := zones[m.zone]
		if z == nil {
			z = &outlook{}
			if z.before, z.planned = t.mu.plans[m.zone]; !z.planned {
				z.before.Of = map[id.Session]Place{}
			}
			zones[m.zone] = z
		}
		takes := m.takes && m.peer != "" && now.Sub(m.heard) <= m.fresh
		z.agents = append(z.agents, Agent{Session: session, Rate: m.rate, Takes: takes})
		if !z.planned && takes && m.writer != 0 {
			place := Place{Writer: m.writer, Kind: Hands}
			if m.writer == session {
				place.Kind = Writes
			}
			z.before.Of[session] = place
		}
	}
	return zones
}

// settled tells whether enough is known of a zone for its first plan. Until then its agents keep what the owner before
// told them.
func (t *Tenure) settled(zone string, now time.Time) bool {
	if now.Sub(t.mu.begun) >= learning {
		return true
	}
	for _, m := range t.mu.members {
		if m.zone == zone && m.heard.IsZero() {
			return false
		}
	}
	return true
}

// plan gives the plan of one zone: another one at once if other agents than before take batches or write, or if more
// writers are needed, else if it is due.
func (t *Tenure) plan(name string, z outlook, due bool) Plan {
	next := Assign(z.agents, z.before, t.rates)
	reason := reasonOf(z.agents, z.before)
	if z.planned && reason == reasonRates && !due && next.Writers() <= z.before.Writers() {
		return z.before
	}
	if next.Share == z.before.Share && maps.Equal(next.Of, z.before.Of) {
		return z.before
	}
	moved := next.movedFrom(z.before)
	t.metrics.changed(reason, moved)
	t.log.Debug("zone writers changed", zap.String("zone", name), zap.String("reason", reason),
		zap.Int("agents", len(z.agents)), zap.Int("writers", next.Writers()), zap.Int("moved", moved))
	return next
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
