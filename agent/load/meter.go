package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/controlplane/api"
)

// How often a Meter measures, and over how many of the times between it averages.
const (
	Interval = time.Second
	window   = 10
)

// Budget is a bound of memory at which clients wait.
type Budget struct {
	Name string
	// Use gives what is held and the bound, both bytes.
	Use func() (held, bound int64)
}

// Config says what a Meter measures. All functions are called once a second, from one goroutine.
type Config struct {
	// CPU gives the CPU time used so far; nil: this process's.
	CPU func() time.Duration
	// Cores gives how many CPUs may be used; nil: GOMAXPROCS, or less by the quota of the cgroup.
	Cores func() float64
	// Network gives the bytes received and sent so far; nil: none.
	Network func() (in, out int64)
	// NetworkLimit is how many bytes a second the network carries in each direction; 0: not known, and its share is 0.
	NetworkLimit int64
	// Budgets are the bounds of memory at which clients wait. The fullest counts.
	Budgets []Budget
	// Produced gives the bytes of the record batches that clients sent so far; nil: none.
	Produced func() int64
	// TakesBatches tells whether the agent writes other agents' batches and hands over its own; nil: it does not.
	TakesBatches func() bool
	Registerer   prometheus.Registerer // nil: a private registry
}

// ApplyDefaults fills in what is nil.
func (c *Config) ApplyDefaults() {
	if c.CPU == nil {
		c.CPU = processCPU
	}
	if c.Cores == nil {
		c.Cores = processCores
	}
	if c.Network == nil {
		c.Network = func() (in, out int64) { return 0, 0 }
	}
	if c.Produced == nil {
		c.Produced = func() int64 { return 0 }
	}
	if c.TakesBatches == nil {
		c.TakesBatches = func() bool { return false }
	}
	c.Registerer = cmp.Or[prometheus.Registerer](c.Registerer, prometheus.NewRegistry())
}

// Validate gives all faults at once.
func (c *Config) Validate() error {
	var errs []error
	if c.NetworkLimit < 0 {
		errs = append(errs, fmt.Errorf("network limit of %d bytes a second is negative", c.NetworkLimit))
	}
	for _, b := range c.Budgets {
		if b.Name == "" || b.Use == nil {
			errs = append(errs, fmt.Errorf("memory budget %q has no name or no use", b.Name))
		}
	}
	return errors.Join(errs...)
}

// Meter measures while Run runs. Load may be called at any time, by anybody.
type Meter struct {
	cfg     Config
	load    atomic.Pointer[api.Load]
	samples []sample // the newest ones, oldest first, window + 1 at most; of Run's goroutine
}

// sample is what had been used up to a moment. All but buffers only grow.
type sample struct {
	at            time.Time
	cpu           time.Duration
	allowed       time.Duration // CPU time that could have been used since the first sample
	in, out, sent int64         // bytes: received and sent in all, and of batches that clients sent
	buffers       float64       // share of the fullest budget
}

// New builds a Meter, which has measured nothing yet.
func New(cfg Config) (*Meter, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	m := &Meter{cfg: cfg}
	m.load.Store(&api.Load{})
	registerMetrics(cfg.Registerer, m)
	return m, nil
}

// Load gives the average of the last ten seconds, or of what there is of them. It is not changed any more.
func (m *Meter) Load() *api.Load { return m.load.Load() }

// Run measures until ctx ends.
func (m *Meter) Run(ctx context.Context) error {
	tick := time.NewTicker(Interval)
	defer tick.Stop()
	m.measure(time.Now())
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-tick.C:
			m.measure(now)
		}
	}
}

// measure takes the next sample and averages.
func (m *Meter) measure(now time.Time) {
	s := sample{at: now, cpu: m.cfg.CPU(), sent: m.cfg.Produced(), buffers: m.fullest()}
	s.in, s.out = m.cfg.Network()
	if n := len(m.samples); n > 0 {
		last := &m.samples[n-1]
		s.allowed = last.allowed + time.Duration(m.cfg.Cores()*float64(now.Sub(last.at)))
	}
	m.samples = append(m.samples, s)
	if len(m.samples) > window+1 {
		m.samples = append(m.samples[:0], m.samples[1:]...)
	}
	m.load.Store(m.average())
}

// fullest is the share of the budget that is used most.
func (m *Meter) fullest() (share float64) {
	for _, b := range m.cfg.Budgets {
		if held, bound := b.Use(); bound > 0 {
			share = max(share, float64(held)/float64(bound))
		}
	}
	return share
}

// average is the load over the samples. CPU that was used beyond what may be, which a quota allows for moments, counts
// as all of it.
func (m *Meter) average() *api.Load {
	l := &api.Load{TakesBatches: m.cfg.TakesBatches()}
	for i := range m.samples {
		l.Buffers += m.samples[i].buffers
	}
	l.Buffers /= float64(len(m.samples))
	first, last := &m.samples[0], &m.samples[len(m.samples)-1]
	seconds := last.at.Sub(first.at).Seconds()
	if seconds <= 0 {
		return l
	}
	if allowed := last.allowed - first.allowed; allowed > 0 {
		l.Cpu = min(1, float64(last.cpu-first.cpu)/float64(allowed))
	}
	if m.cfg.NetworkLimit > 0 {
		l.Network = float64(max(last.in-first.in, last.out-first.out)) / seconds / float64(m.cfg.NetworkLimit)
	}
	l.ProduceBytesPerSecond = float64(last.sent-first.sent) / seconds
	return l
}
