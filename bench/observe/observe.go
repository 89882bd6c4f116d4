package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Interval is how often targets are sampled if nothing else is said.
const Interval = time.Second

// MaxTargets bounds how many targets are watched, and so how many requests are under way at once.
const MaxTargets = 256

// Config is what to watch.
type Config struct {
	Targets  []Target
	Interval time.Duration // 0: Interval; at least 10 ms, the kernel's step of CPU times
	Client   *http.Client  // nil: one of its own
}

// ApplyDefaults fills what is zero.
func (c *Config) ApplyDefaults() {
	if c.Interval == 0 {
		c.Interval = Interval
	}
	if c.Client == nil {
		c.Client = &http.Client{}
	}
}

// Validate gives all faults at once.
func (c *Config) Validate() error {
	var faults []error
	if c.Interval < 10*time.Millisecond {
		faults = append(faults, fmt.Errorf("interval %s: want at least 10ms", c.Interval))
	}
	if len(c.Targets) > MaxTargets {
		faults = append(faults, fmt.Errorf("%d targets: want at most %d", len(c.Targets), MaxTargets))
	}
	seen := map[string]bool{}
	for _, t := range c.Targets {
		switch {
		case t.Name == "":
			faults = append(faults, errors.New("a target has no name"))
		case seen[t.Name]:
			faults = append(faults, fmt.Errorf("target %s: named twice", t.Name))
		case t.PID == 0 && t.Metrics == "":
			faults = append(faults, fmt.Errorf("target %s: want a process id or the URL of its metrics", t.Name))
		}
		seen[t.Name] = true
	}
	return errors.Join(faults...)
}

// Run samples every target at once, then every interval, and a last time when ctx ends, and gives the series. A target
// that cannot be read is a warning of the series, not an error: what is watched must not end the run. The only errors are
// those of Validate.
func Run(ctx context.Context, cfg Config) (*Series, error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	o := newObserver(cfg)
	tick := time.NewTicker(cfg.Interval)
	defer tick.Stop()
	o.sample(ctx)
	for {
		select {
		case <-ctx.Done():
			// The last sample must not fail because the run is over.
			o.sample(context.WithoutCancel(ctx))
			return o.series, nil
		case <-tick.C:
			o.sample(ctx)
		}
	}
}

// Start is Run in the background; the function it gives ends it, waits and gives the series. It may be called once.
func Start(ctx context.Context, cfg Config) (stop func() *Series, err error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan *Series, 1)
	go func() {
		series, _ := Run(ctx, cfg) // its errors are those of Validate
		done <- series
	}()
	return func() *Series {
		cancel()
		return <-done
	}, nil
}

// observer owns the series while it grows.
type observer struct {
	cfg    Config
	series *Series
	start  time.Time // with the monotonic clock
}

func newObserver(cfg Config) *observer {
	now := time.Now()
	o := &observer{cfg: cfg, start: now, series: &Series{Start: now.UTC().Round(0)}}
	for _, t := range cfg.Targets {
		o.series.Targets = append(o.series.Targets, History{Name: t.Name, Apart: t.Apart})
	}
	return o
}

// sample reads all targets, side by side so that a slow one does not shift the others.
func (o *observer) sample(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, max(o.cfg.Interval, time.Second))
	defer cancel()
	samples, faults := make([]Sample, len(o.cfg.Targets)), make([]error, len(o.cfg.Targets))
	var group errgroup.Group
	group.SetLimit(MaxTargets)
	for i, t := range o.cfg.Targets {
		group.Go(func() error {
			at := time.Since(o.start).Seconds()
			samples[i], faults[i] = read(limited, o.cfg.Client, t)
			samples[i].At = at
			return nil
		})
	}
	_ = group.Wait() // the functions give no errors
	if ctx.Err() != nil {
		return // the end of the run broke the readings off; Run takes them again
	}
	for i := range samples {
		if faults[i] != nil {
			o.warn(fmt.Sprintf("%s: %v", o.cfg.Targets[i].Name, faults[i]))
			continue
		}
		h := &o.series.Targets[i]
		if n := len(h.Samples); n > 0 && samples[i].At <= h.Samples[n-1].At {
			continue
		}
		h.Samples = append(h.Samples, samples[i])
	}
}

// maxWarnings bounds how many different warnings a series keeps.
const maxWarnings = 20

func (o *observer) warn(message string) {
	if len(o.series.Warnings) < maxWarnings && !slices.Contains(o.series.Warnings, message) {
		o.series.Warnings = append(o.series.Warnings, message)
	}
}
