package zonewriter

import (
	"maps"
	"math"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata/id"
)

// round brings every zone's plan up to date and tells the agents what has changed for them. Plans are made without the
// lock, since the owner's Apply waits for it: with thousands of agents they take a while.
func (t *Tenure) round(now time.Time) {
	zones, due := t.look(now)
	plans := make(map[string]Plan, len(zones))
	for _, name := range slices.Sorted(maps.Keys(zones)) {
		plans[name] = t.plan(name, zones[name], due)
	}
	t.metrics.show(plans)
	for _, m := range t.adopt(plans) {
		if !t.agents.TellZoneWriter(m.agent, m.writer, m.share) {
			t.missed(m.agent)
		}
	}
}

// message is what one agent is to be told.
type message struct {
	agent id.Session
	told
}

// look gives the agents of each zone that can be planned, and whether plans are to follow the rates.
func (t *Tenure) look(now time.Time) (zones map[string][]Agent, due bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sample(now)
	if due = now.Sub(t.mu.planned) >= planInterval; due {
		t.mu.planned = now
	}
	zones = t.zones(now)
	maps.DeleteFunc(zones, func(name string, _ []Agent) bool { return !t.settled(name, now) })
	return zones, due
}

// adopt makes plans the ones that hold, gives what is to be told to whom, and takes it for told. Agents that never said
// their load know no zone writers.
func (t *Tenure) adopt(plans map[string]Plan) (messages []message) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.plans = plans
	for session, m := range t.mu.members {
		plan := plans[m.zone]
		place, planned := plan.Of[session]
		if now := (told{writer: place.Writer, share: plan.Share}); planned && !m.heard.IsZero() && now != m.told {
			m.told = now
			messages = append(messages, message{agent: session, told: now})
		}
	}
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

// plan gives the plan of one zone: another one at once if other agents than before take batches or write, or if more
// writers are needed, else if it is due.
func (t *Tenure) plan(name string, agents []Agent, due bool) Plan {
	before := t.mu.plans[name] // only this goroutine sets them
	next := Assign(agents, before, t.rates)
	reason := reasonOf(agents, before)
	if reason == reasonRates && !due && next.Writers() <= before.Writers() {
		return before
	}
	if next.Share == before.Share && maps.Equal(next.Of, before.Of) {
		return before
	}
	moved := next.movedFrom(before)
	t.metrics.changed(reason, moved)
	t.log.Debug("zone writers changed", zap.String("zone", name), zap.String("reason", reason),
		zap.Int("agents", len(agents)), zap.Int("writers", next.Writers()), zap.Int("moved", moved))
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
