package view

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/metadata/id"
)

// calmProbeInterval is how often the owner is asked while fetches are parked all of which have a stamp from after they came:
// what is known when the stream breaks is no older than that.
const calmProbeInterval = time.Second

// Waiter is one parked fetch: it hears of commits in the partitions it was put to.
type Waiter struct {
	ready     chan struct{}
	missing   atomic.Int64
	committed bool // counts what the last stable offset passes, not what is appended
}

// NewWaiter makes a waiter that is woken by the given number of record bytes that become readable, below the last
// stable offset if only committed ones count, or by any change that needs a new plan.
func NewWaiter(bytes int64, committed bool) *Waiter {
	w := &Waiter{ready: make(chan struct{}, 1), committed: committed}
	w.missing.Store(bytes)
	return w
}

// Ready receives once there is reason to plan again.
func (w *Waiter) Ready() <-chan struct{} { return w.ready }

// Reset says how many more bytes are missing.
func (w *Waiter) Reset(bytes int64) { w.missing.Store(bytes) }

func (w *Waiter) credit(bytes int64) {
	if w.missing.Add(-bytes) <= 0 {
		w.wake()
	}
}

func (w *Waiter) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// Park puts the waiter to a partition whose plan had these marks. If that is no longer how things are, the waiter is
// ready at once. Leave must follow.
func (p *Partitions) Park(w *Waiter, tp id.TopicPartition, seen Watermarks) {
	part := p.find(tp)
	if part == nil {
		return // over the bound: only its fetch's deadline ends the wait
	}
	part.mu.Lock()
	defer part.mu.Unlock()
	if part.mu.waiters == nil {
		part.mu.waiters = make(map[*Waiter]struct{})
	}
	part.mu.waiters[w] = struct{}{}
	if part.mu.state != live || part.mu.marks != seen {
		w.wake()
	}
}

// Leave takes the waiter from a partition.
func (p *Partitions) Leave(w *Waiter, tp id.TopicPartition) {
	if part := p.find(tp); part != nil {
		part.mu.Lock()
		defer part.mu.Unlock()
		delete(part.mu.waiters, w)
		part.mu.used = time.Now()
	}
}

// Parked counts fetches that wait, by +1 and -1: once they came, the owner is probed for all of them together.
func (p *Partitions) Parked(delta int64) {
	n := p.parked.Add(delta)
	p.metrics.parked.Set(float64(n))
	if delta > 0 {
		p.parkedLast.Store(int64(time.Since(p.began)))
		select {
		case p.park <- struct{}{}:
		default:
		}
	}
}

const (
	// idleAfter is how long a partition that nobody reads stays subscribed.
	idleAfter = time.Minute
	// probeInterval is how often the owner is asked for a stamp while fetches are being parked. Where all have waited for
	// longer, the owner is asked once a second.
	probeInterval = 100 * time.Millisecond
)

// Run probes the owner while fetches are parked, and drops idle partitions, until ctx ends.
func (p *Partitions) Run(ctx context.Context) error {
	sweep := time.NewTicker(idleAfter / 4)
	defer sweep.Stop()
	probe := time.NewTicker(probeInterval)
	probe.Stop()
	probing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-sweep.C:
			p.sweep(time.Now())
		case <-p.park:
			if !probing {
				probing = true
				probe.Reset(probeInterval)
			}
		case <-probe.C:
			if !p.probe(ctx) {
				probing = false
				probe.Stop()
			}
		}
	}
}

// probe confirms the views once if anyone waits for that, and reports whether fetches are parked.
func (p *Partitions) probe(ctx context.Context) bool {
	if p.parked.Load() == 0 {
		return false
	}
	if confirmed := p.confirmedAt(); time.Since(confirmed) < calmProbeInterval && !confirmed.Before(p.newestParked()) {
		return true
	}
	result := "ok"
	if err := p.Confirm(ctx); err != nil {
		result = "failed" // fetches that need it ask themselves and answer for it
	}
	p.metrics.probes.WithLabelValues(result).Inc()
	return true
}

// newestParked is when the newest fetch was parked.
func (p *Partitions) newestParked() time.Time { return p.began.Add(time.Duration(p.parkedLast.Load())) }

// sweep drops the partitions that nobody read for a while.
func (p *Partitions) sweep(now time.Time) {
	var idle []*partition
	for _, part := range p.all() {
		if part.idle(now.Add(-idleAfter)) {
			idle = append(idle, part)
		}
	}
	if len(idle) == 0 {
		return
	}
	refs := make([]id.TopicPartition, len(idle))
	for i, part := range idle {
		refs[i] = part.tp
	}
	// Nobody looks these partitions up until they are out of the set, so that no later subscription is undone.
	p.cfg.Source.Unsubscribe(refs)
	p.drop(idle)
}

// idle takes a partition out of use if nobody used it since.
func (p *partition) idle(since time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.mu.waiters) > 0 || p.mu.used.After(since) || p.mu.state != live && p.mu.state != absent {
		return false
	}
	p.mu.state = leaving
	p.mu.done = make(chan struct{})
	return true
}

func (p *Partitions) drop(parts []*partition) {
	p.mu.Lock()
	for _, part := range parts {
		delete(p.mu.parts, part.tp)
	}
	p.metrics.subscriptions.Set(float64(len(p.mu.parts)))
	p.mu.Unlock()
	for _, part := range parts {
		part.mu.Lock()
		part.mu.state = gone
		part.void()
		close(part.mu.done)
		part.mu.Unlock()
	}
}
