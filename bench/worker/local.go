package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/freshet-io/freshet/bench/javaconfig"
	"github.com/freshet-io/freshet/bench/load"
)

// ErrOrder says that a method was called before one that must come first.
var ErrOrder = errors.New("worker: called out of order")

// leastRate is what a rate falls to at least, in messages/s, as in the OpenMessaging Benchmark.
const leastRate = 1

// stopTimeout bounds how long stopping waits for what is still on its way.
const stopTimeout = 30 * time.Second

// Local generates load from this process.
type Local struct {
	zone string

	mu  sync.Mutex
	run *run // nil before Init and after Stop
}

// run is one benchmark's share of this worker.
type run struct {
	stats           *load.Stats
	cpu             *load.CPU
	rate            *load.Rate
	admin, producer javaconfig.Client
	consumer        javaconfig.ConsumerClient

	mu        sync.Mutex
	producers *load.Producers // nil before CreateProducers and after StopLoad
	consumers []*load.Consumers
}

var _ Worker = (*Local)(nil)

// NewLocal makes a worker. Zone is what stands for {zone.id} in the property client.id.
func NewLocal(zone string) *Local { return &Local{zone: zone} }

// Init maps the configuration; nothing connects yet.
func (l *Local) Init(ctx context.Context, setup Setup) ([]string, error) {
	if err := l.Stop(ctx); err != nil {
		return nil, err
	}
	r, err := newRun(setup, l.zone)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.run = r
	return warnings(r), nil
}

func newRun(setup Setup, zone string) (*run, error) {
	common, err1 := javaconfig.Parse(setup.Common)
	producer, err2 := javaconfig.Parse(setup.Producer)
	consumer, err3 := javaconfig.Parse(setup.Consumer)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, err
	}
	if setup.Bootstrap != "" {
		common["bootstrap.servers"] = setup.Bootstrap
		delete(producer, "bootstrap.servers")
		delete(consumer, "bootstrap.servers")
	}
	for _, p := range []javaconfig.Properties{common, producer, consumer} {
		if id, given := p["client.id"]; given {
			p["client.id"] = strings.ReplaceAll(id, "{zone.id}", zone)
		}
	}
	r := &run{stats: load.NewStats(), cpu: load.NewCPU(), rate: load.NewRate(0)}
	r.admin, err1 = javaconfig.Admin(common)
	r.producer, err2 = javaconfig.Producer(common.With(producer), setup.RecordBytes)
	r.consumer, err3 = javaconfig.Consumer(common.With(consumer))
	return r, errors.Join(err1, err2, err3)
}

// warnings names the role where it matters, and says what holds for all only once.
func warnings(r *run) []string {
	var all []string
	seen := map[string]bool{}
	for _, w := range r.admin.Warnings {
		seen[w] = true
		all = append(all, "clients: "+w)
	}
	for _, role := range []struct {
		name     string
		warnings []string
	}{{"producers", r.producer.Warnings}, {"consumers", r.consumer.Warnings}} {
		for _, w := range role.warnings {
			if !seen[w] {
				all = append(all, role.name+": "+w)
			}
		}
	}
	return all
}

// current gives the run, if there is one.
func (l *Local) current() (*run, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.run == nil {
		return nil, fmt.Errorf("%w: there is no run", ErrOrder)
	}
	return l.run, nil
}
