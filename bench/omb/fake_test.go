package omb

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/freshet-io/freshet/bench/load"
	"github.com/freshet-io/freshet/bench/worker"
)

// fakeWorker is a system that publishes and delivers up to some rates, by the clock of the test.
type fakeWorker struct {
	publishes, delivers float64 // messages/s at most; delivers is of all subscriptions together
	subscriptions       float64
	cpu                 load.CPUUse
	deaf                bool  // probes do not arrive
	outside             int   // consumers whose groups do not take them
	rateErr             error // of SetRate

	mu             sync.Mutex
	calls          []string
	rate           float64
	started        bool
	paused         bool
	sent, received float64
	at             time.Time
	taken          load.Counters // by Period
	takenAt        time.Time
	none           load.Latencies
	topics         worker.Topics
	producers      []string
	consumers      []load.Subscription
	load           worker.Load
	rates          []worker.RateChange
}

func newFake(publishes, delivers, subscriptions float64) *fakeWorker {
	return &fakeWorker{publishes: publishes, delivers: delivers, subscriptions: subscriptions, none: load.NewLatencies()}
}

// call brings the counters up to now.
func (f *fakeWorker) call(name string) func() {
	f.mu.Lock()
	if name != "" {
		f.calls = append(f.calls, name)
	}
	now := time.Now()
	seconds := now.Sub(f.at).Seconds()
	f.at = now
	if f.started {
		f.sent += min(f.rate, f.publishes) * seconds
	}
	if !f.paused && !f.deaf {
		f.received += min(f.sent*f.subscriptions-f.received, f.delivers*seconds)
	}
	return f.mu.Unlock
}

func (f *fakeWorker) counters() load.Counters {
	return load.Counters{Sent: int64(f.sent), Received: int64(f.received), Joined: int64(len(f.consumers) - f.outside)}
}

func (f *fakeWorker) Init(context.Context, worker.Setup) ([]string, error) {
	defer f.call("init")()
	return []string{"max.block.ms is ignored"}, nil
}

func (f *fakeWorker) CreateTopics(_ context.Context, topics worker.Topics) error {
	defer f.call("topics")()
	f.topics = topics
	return nil
}

func (f *fakeWorker) CreateProducers(_ context.Context, topics []string) error {
	defer f.call("producers")()
	f.producers = topics
	return nil
}

func (f *fakeWorker) CreateConsumers(_ context.Context, subscriptions []load.Subscription) error {
	defer f.call("consumers")()
	f.consumers = subscriptions
	return nil
}

func (f *fakeWorker) Probe(context.Context) error {
	defer f.call("probe")()
	f.sent += float64(len(f.producers))
	return nil
}

func (f *fakeWorker) StartLoad(_ context.Context, l worker.Load) error {
	defer f.call(fmt.Sprintf("start at %v", l.Rate))()
	f.started, f.rate, f.load = true, l.Rate, l
	return nil
}

func (f *fakeWorker) SetRate(_ context.Context, change worker.RateChange) error {
	defer f.call("")()
	f.rate, f.rates = change.Rate, append(f.rates, change)
	return f.rateErr
}

func (f *fakeWorker) PauseConsumers(context.Context) error {
	defer f.call("pause")()
	f.paused = true
	return nil
}

func (f *fakeWorker) ResumeConsumers(context.Context) error {
	defer f.call("resume")()
	f.paused = false
	return nil
}

func (f *fakeWorker) ResetLatencies(context.Context) error {
	defer f.call("reset")()
	return nil
}

func (f *fakeWorker) Counters(context.Context) (load.Counters, error) {
	defer f.call("")()
	return f.counters(), nil
}

func (f *fakeWorker) Period(context.Context) (worker.Period, error) {
	defer f.call("")()
	totals := f.counters()
	p := worker.Period{CPU: f.cpu, Period: load.Period{
		Totals: totals, Latencies: f.none, Elapsed: f.at.Sub(f.takenAt),
		Counters: load.Counters{Sent: totals.Sent - f.taken.Sent, Received: totals.Received - f.taken.Received},
	}}
	f.taken, f.takenAt = totals, f.at
	return p, nil
}

func (f *fakeWorker) Cumulative(context.Context) (load.Latencies, error) {
	defer f.call("total")()
	return f.none, nil
}

func (f *fakeWorker) StopLoad(context.Context) error {
	defer f.call("stop load")()
	f.started = false
	return nil
}

func (f *fakeWorker) Stop(context.Context) error {
	defer f.call("stop")()
	return nil
}
