package view

import (
	"time"

	"github.com/freshet-io/freshet/metadata/id"
)

// What is known when the stream breaks is not wrong, only old: records below the end that was known, and below the last
// stable offset how their transactions ended, never change. So they go on being served while the owner cannot be asked,
// for at most Config.StaleFor, and nothing else is: no end, no emptiness, no absence, no truncation (I4).

// OnConnect begins a stream: look-ups will be answered. Part of client.Handler's OnWelcome.
func (p *Partitions) OnConnect() { p.connected.Store(true) }

// OnDisconnect ends the subscriptions: from now on notices are missed. Part of client.Handler.
func (p *Partitions) OnDisconnect() {
	p.connected.Store(false)
	p.generation.Add(1)
	known := p.began.Add(time.Duration(p.heard.Load()))
	if confirmed := p.confirmedAt(); confirmed.After(known) {
		known = confirmed
	}
	for _, part := range p.all() {
		part.mu.Lock()
		if part.mu.state == live {
			part.mu.state, part.mu.stale = absent, part.mu.asked
			if known.After(part.mu.asked) {
				part.mu.stale = known
			}
		}
		part.mu.pending, part.mu.indexes = nil, nil
		part.wake()
		part.mu.Unlock()
	}
}

// OnSessionClosed ends the subscriptions. Part of client.Handler.
func (p *Partitions) OnSessionClosed() { p.OnDisconnect() }

// Invalidate forgets a partition's extents: an object that they name is not there any more. The next Plan looks up.
func (p *Partitions) Invalidate(tp id.TopicPartition) {
	part := p.find(tp)
	if part == nil {
		return
	}
	part.mu.Lock()
	defer part.mu.Unlock()
	switch {
	case part.mu.state == live:
		part.mu.state = absent
		part.void()
	case !part.mu.stale.IsZero(): // a look-up may be under way
		part.mu.stale = time.Time{}
		part.forget()
	}
}

// planKnown plans without asking anyone, what is stale too. It reports whether there is anything to read; else the
// plans say nothing.
func (p *Partitions) planKnown(wants []Want, plans []Plan) (found bool) {
	now := time.Now()
	stale := 0
	for i := range wants {
		plans[i] = Plan{Away: true}
		confirmed := p.confirmedAt() // before the marks
		part := p.find(wants[i].Partition)
		if part == nil {
			continue
		}
		part.mu.Lock()
		part.mu.used = now
		switch {
		case part.mu.state == live:
			if !part.planLive(&wants[i], confirmed, &plans[i]) {
				plans[i] = Plan{Away: true}
			}
		case part.planStale(&wants[i], now.Add(-p.cfg.StaleFor), &plans[i]):
			stale++
		}
		part.mu.Unlock()
		found = found || len(plans[i].Extents) > 0
	}
	if found {
		p.metrics.stale.Add(float64(stale))
	}
	return found
}

// planStale plans records, and nothing else, from what was known after since.
func (p *partition) planStale(w *Want, since time.Time, plan *Plan) bool {
	if p.mu.stale.IsZero() {
		return false
	}
	if !p.mu.stale.After(since) {
		p.mu.stale = time.Time{}
		p.forget()
		return false
	}
	if !p.plan(w, plan) || len(plan.Extents) == 0 {
		*plan = Plan{Away: true}
		return false
	}
	plan.Stale = true
	return true
}
