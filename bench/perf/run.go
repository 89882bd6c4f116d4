package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/bench/load"
)

// test is a run.
type test struct {
	cfg      Config
	options  clientOptions
	warnings []string
	admin    *kadm.Client
	stats    *load.Stats
	cpu      *load.CPU
	limit    *rate.Limiter // of consumers; nil for none
	rate     *load.Rate
	values   [][]byte // in Avro, if they have a schema

	topics    []load.Topic
	created   bool // topics are to be deleted
	groups    []*group
	producers []*load.Producers

	base   load.Counters // at the last reset: they are taken off
	behind int64         // records that groups had to receive yet, at the last reset
	slow   load.CPUUse   // the highest share of a period
}

// Outcome is a test's result and what is worth knowing about it.
type Outcome struct {
	Result   *Result
	Path     string // of the JSON file
	Warnings []string
}

// Run makes the test, prints its lines to Config.Out and writes the JSON file. An error after measuring began, such as
// one of cleaning up, comes with the outcome.
func Run(ctx context.Context, cfg Config) (_ *Outcome, err error) {
	cfg.ApplyDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t, err := newTest(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.close(ctx)) }()
	for _, w := range t.warnings {
		t.say("warning: %s", w)
	}
	result, err := t.run(ctx)
	if err != nil {
		return nil, err
	}
	if w := t.slow.Warning(); w != "" {
		t.warnings = append(t.warnings, w)
		t.say("warning: %s", w)
	}
	path, err := result.Write(cfg.ResultDir, time.Now())
	if err != nil {
		return nil, err
	}
	t.say("Saving results to %s", path)
	return &Outcome{Result: result, Path: path, Warnings: t.warnings}, nil
}

func newTest(ctx context.Context, cfg Config) (*test, error) {
	t := &test{cfg: cfg, stats: load.NewStats(), cpu: load.NewCPU(), rate: load.NewRate(0)}
	var err error
	if t.values, err = avroValues(&cfg); err != nil {
		return nil, err
	}
	if t.options, t.warnings, err = newClientOptions(&cfg, largest(t.values, cfg.RecordSize)); err != nil {
		return nil, err
	}
	if t.admin, err = newAdmin(t.options.admin); err != nil {
		return nil, err
	}
	t.limit = t.consumerLimit()
	for i := range cfg.Groups {
		t.groups = append(t.groups, &group{index: i, seen: newSeen()})
	}
	return t, ctx.Err()
}

// largest gives the size of the largest value, size if there are none.
func largest(values [][]byte, size int) int {
	if len(values) == 0 {
		return size
	}
	most := 0
	for _, v := range values {
		most = max(most, len(v)+confluentHeader)
	}
	return most
}

func (t *test) say(format string, args ...any) { fmt.Fprintf(t.cfg.Out, format+"\n", args...) }

// run goes through the phases.
func (t *test) run(ctx context.Context) (*Result, error) {
	if err := t.prepareTopics(ctx); err != nil {
		return nil, err
	}
	if t.cfg.CatchupPrefix != "" {
		return t.readOldTopics(ctx)
	}
	if err := t.startClients(); err != nil {
		return nil, err
	}
	if t.cfg.AwaitReady {
		if err := t.awaitReady(ctx); err != nil {
			return nil, err
		}
	}
	if err := t.warmUp(ctx); err != nil {
		return nil, err
	}
	if t.cfg.Backlog > 0 {
		return t.catchUp(ctx)
	}
	t.say("Running test for %v...", t.cfg.Test)
	t.measureOn()
	return t.collect(ctx, lasting(t.cfg.Test))
}

func (t *test) startClients() error {
	start := time.Now()
	if err := t.startGroups(t.topics); err != nil {
		return err
	}
	t.say("Created %d consumers, took %d ms", len(t.topics)*t.cfg.Groups*t.cfg.Consumers, time.Since(start).Milliseconds())
	start = time.Now()
	if err := t.makeProducers(); err != nil {
		return err
	}
	t.say("Created %d producers, took %d ms", len(t.topics)*t.cfg.Producers, time.Since(start).Milliseconds())
	return nil
}

// minRate is where the warm-up begins, records a second.
const minRate = 1.0

// warmUp starts producers. During its first half the rate rises in a straight line.
func (t *test) warmUp(ctx context.Context) error {
	for _, p := range t.producers {
		if err := p.Start(); err != nil {
			return err
		}
	}
	target := float64(t.cfg.SendRate)
	if t.cfg.Warmup == 0 {
		t.rate.Restart(target)
		return nil
	}
	t.say("Warming up for %v...", t.cfg.Warmup)
	t.rate.Restart(minRate)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ramp := make(chan struct{})
	go func() {
		defer close(ramp)
		t.ramp(ctx, target, t.cfg.Warmup/2)
	}()
	_, err := t.collect(ctx, lasting(t.cfg.Warmup))
	cancel()
	<-ramp
	t.rate.Set(target)
	return err
}

// rampSteps is how often the rate is set while it rises.
const rampSteps = 100

func (t *test) ramp(ctx context.Context, target float64, over time.Duration) {
	step := time.NewTicker(max(over/rampSteps, time.Millisecond))
	defer step.Stop()
	start := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-step.C:
		}
		share := min(1, float64(time.Since(start))/float64(over))
		t.rate.Set(minRate + share*(target-minRate))
		if share == 1 {
			return
		}
	}
}

// close ends all clients and removes what the test made, if it is to.
func (t *test) close(ctx context.Context) error {
	errs := []error{t.stopProducers(ctx), t.stopGroups(), t.removeTopics(ctx)}
	t.admin.Close()
	return errors.Join(errs...)
}
