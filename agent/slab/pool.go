package slab

import (
	"cmp"
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Defaults and bounds of Config.
const (
	DefaultSlabBytes = 1 << 20
	MinSlabBytes     = 4 << 10
	// grain is what the size of a slab made to measure is rounded up to, bytes.
	grain = 4 << 10
)

// poison fills released memory when Config.Poison is set: no valid record batch starts with it.
const poison = 0xDB

// Config says how much memory a Pool lends.
type Config struct {
	// Budget bounds the capacity lent, in bytes. A slab larger than the budget is lent only while nothing else is.
	Budget int64
	// SlabBytes is the size of an ordinary slab; default 1 MiB.
	SlabBytes int
	// Poison overwrites memory when it is released, so that tests see readers that come too late.
	Poison bool
}

// ApplyDefaults fills the fields left zero.
func (c *Config) ApplyDefaults() {
	c.SlabBytes = cmp.Or(c.SlabBytes, DefaultSlabBytes)
}

// Validate names every fault of the configuration.
func (c *Config) Validate() error {
	var errs []error
	if c.SlabBytes < MinSlabBytes {
		errs = append(errs, fmt.Errorf("slab size %d is below %d bytes", c.SlabBytes, MinSlabBytes))
	}
	if c.Budget < int64(c.SlabBytes) {
		errs = append(errs, fmt.Errorf("write buffer budget %d is below one slab of %d bytes", c.Budget, c.SlabBytes))
	}
	return errors.Join(errs...)
}

// Pool lends slabs within a budget. Who asks at the bound waits in order of arrival. Safe for concurrent use.
type Pool struct {
	cfg     Config
	metrics *metrics

	mu struct {
		sync.Mutex
		held    int64     // capacity lent and not transferred, plus charges
		free    []*Slab   // ordinary slabs, kept for reuse; held + len(free)*SlabBytes <= Budget
		waiters list.List // of *waiter
	}
}

// waiter is one Get that found the budget used up.
type waiter struct {
	bytes int64
	lent  chan *Slab // buffered: lending never blocks
}

// NewPool builds a pool; nothing is allocated before it is asked for.
func NewPool(cfg Config, reg prometheus.Registerer) (*Pool, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("slab pool: %w", err)
	}
	return &Pool{cfg: cfg, metrics: newMetrics(reg, cfg.Budget)}, nil
}

// SlabBytes is the capacity of an ordinary slab.
func (p *Pool) SlabBytes() int { return p.cfg.SlabBytes }

// Held is the capacity accounted for at the moment, bytes.
func (p *Pool) Held() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.held
}

// Get lends an empty ordinary slab. At the bound it waits its turn until ctx ends, and then returns the context's
// error.
func (p *Pool) Get(ctx context.Context) (*Slab, error) { return p.get(ctx, int64(p.cfg.SlabBytes)) }

// GetExact is Get for a slab made to measure: n bytes, rounded up to 4 KiB.
func (p *Pool) GetExact(ctx context.Context, n int) (*Slab, error) {
	return p.get(ctx, (int64(n)+grain-1)/grain*grain)
}

func (p *Pool) get(ctx context.Context, size int64) (*Slab, error) {
	p.mu.Lock()
	if p.mu.waiters.Len() == 0 && p.fits(size) {
		s := p.lend(size)
		p.mu.Unlock()
		return s, nil
	}
	w := &waiter{bytes: size, lent: make(chan *Slab, 1)}
	place := p.mu.waiters.PushBack(w)
	p.mu.Unlock()
	p.metrics.waits.Inc()

	select {
	case s := <-w.lent:
		return s, nil
	case <-ctx.Done():
		p.giveUp(place, w)
		return nil, ctx.Err()
	}
}

// ForceExact lends a slab of exactly n bytes at once, whatever the bound says: whoever calls it copies what lies in
// larger slabs and releases those, so that less is held afterwards.
func (p *Pool) ForceExact(n int) *Slab {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lend(int64(n))
}

// giveUp takes a waiter out of the queue, or gives back what it was lent meanwhile.
func (p *Pool) giveUp(place *list.Element, w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case s := <-w.lent:
		p.takeBack(s)
	default:
		p.mu.waiters.Remove(place)
	}
	p.serve() // the one behind may fit where this one did not
}

// Charge accounts for n bytes of memory that goes with slabs but lies elsewhere (tables, copies made to measure). It
// never waits: whoever comes next does. A negative n gives it back.
func (p *Pool) Charge(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.held += n
	p.trim()
	p.serve()
	p.metrics.held.Set(float64(p.mu.held))
}

// fits tells whether a slab of so many bytes may be lent now. Something larger than the budget goes alone.
func (p *Pool) fits(bytes int64) bool {
	return p.mu.held+bytes <= p.cfg.Budget || p.mu.held <= 0
}

// lend is called with the lock held, for a size that fits.
func (p *Pool) lend(bytes int64) *Slab {
	p.mu.held += bytes
	p.metrics.held.Set(float64(p.mu.held))
	if n := len(p.mu.free); n > 0 && bytes == int64(p.cfg.SlabBytes) {
		s := p.mu.free[n-1]
		p.mu.free[n-1] = nil
		p.mu.free = p.mu.free[:n-1]
		s.state = lent
		return s
	}
	p.trim()
	return &Slab{pool: p, buf: make([]byte, bytes)[:0], state: lent}
}

// takeBack is called with the lock held, by the slab's owner.
func (p *Pool) takeBack(s *Slab) {
	if s.state == lent {
		p.mu.held -= int64(cap(s.buf))
	}
	s.state = released
	if p.cfg.Poison {
		fill(s.buf[:cap(s.buf)])
	}
	s.buf = s.buf[:0]
	if cap(s.buf) == p.cfg.SlabBytes {
		p.mu.free = append(p.mu.free, s)
	}
	p.trim()
	p.metrics.held.Set(float64(p.mu.held))
}

// trim lets go of slabs that are kept for reuse beyond the budget.
func (p *Pool) trim() {
	for n := len(p.mu.free); n > 0 && p.mu.held+int64(n)*int64(p.cfg.SlabBytes) > p.cfg.Budget; n-- {
		p.mu.free[n-1] = nil
		p.mu.free = p.mu.free[:n-1]
	}
}

// serve lends to those who wait, in order, as long as the first one fits.
func (p *Pool) serve() {
	for e := p.mu.waiters.Front(); e != nil; e = p.mu.waiters.Front() {
		w := e.Value.(*waiter)
		if !p.fits(w.bytes) {
			return
		}
		p.mu.waiters.Remove(e)
		w.lent <- p.lend(w.bytes)
	}
}

// fill doubles what it has filled: one access to the race detector for each copy, where bytes would be one each.
func fill(b []byte) {
	if len(b) == 0 {
		return
	}
	b[0] = poison
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}
