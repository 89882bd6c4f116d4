package worker

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/bench/load"
)

// Ensemble makes one worker out of several. As in the OpenMessaging Benchmark, half of them produce (fewer if their
// number is odd) and the others consume; one alone does both. Producers and consumers are dealt out in turn, and the
// rate is divided evenly over the workers that have producers.
type Ensemble struct {
	all, producing, consuming []Worker
	used                      atomic.Int64 // producing workers that have producers
}

var _ Worker = (*Ensemble)(nil)

// NewEnsemble takes at least one worker. With extra, two thirds of them consume, for backlogs.
func NewEnsemble(workers []Worker, extra bool) *Ensemble {
	if len(workers) == 1 {
		return &Ensemble{all: workers, producing: workers, consuming: workers}
	}
	producing := len(workers) / 2
	if extra {
		producing = (len(workers) + 2) / 3
	}
	return &Ensemble{all: workers, producing: workers[:producing], consuming: workers[producing:]}
}

// each asks workers at once and gives all errors.
func each(workers []Worker, do func(i int, w Worker) error) error {
	errs := make([]error, len(workers))
	var group errgroup.Group
	for i, w := range workers {
		group.Go(func() error {
			errs[i] = do(i, w)
			return nil
		})
	}
	_ = group.Wait() // all are kept
	return errors.Join(errs...)
}

// deal gives one of n workers its share of entries.
func deal[T any](entries []T, i, n int) []T {
	var mine []T
	for ; i < len(entries); i += n {
		mine = append(mine, entries[i])
	}
	return mine
}

// Init prepares all workers; what several of them warn of is said once.
func (e *Ensemble) Init(ctx context.Context, setup Setup) ([]string, error) {
	texts := make([]string, len(e.all))
	err := each(e.all, func(i int, w Worker) error {
		warnings, err := w.Init(ctx, setup)
		texts[i] = strings.Join(warnings, "\n")
		return err
	})
	var warnings []string
	seen := map[string]bool{"": true}
	for _, text := range texts {
		for line := range strings.SplitSeq(text, "\n") {
			if !seen[line] {
				seen[line] = true
				warnings = append(warnings, line)
			}
		}
	}
	return warnings, err
}

// CreateTopics is for the first worker alone.
func (e *Ensemble) CreateTopics(ctx context.Context, topics Topics) error {
	return e.all[0].CreateTopics(ctx, topics)
}

// CreateProducers deals them out.
func (e *Ensemble) CreateProducers(ctx context.Context, topics []string) error {
	e.used.Store(int64(min(len(topics), len(e.producing))))
	return each(e.producing, func(i int, w Worker) error {
		return w.CreateProducers(ctx, deal(topics, i, len(e.producing)))
	})
}

// CreateConsumers deals them out.
func (e *Ensemble) CreateConsumers(ctx context.Context, subscriptions []load.Subscription) error {
	return each(e.consuming, func(i int, w Worker) error {
		return w.CreateConsumers(ctx, deal(subscriptions, i, len(e.consuming)))
	})
}

// Probe sends with all producers.
func (e *Ensemble) Probe(ctx context.Context) error {
	return each(e.producing, func(_ int, w Worker) error { return w.Probe(ctx) })
}

// share is the part of a rate that each of the workers with producers takes.
func (e *Ensemble) share(rate float64) float64 { return rate / float64(max(1, e.used.Load())) }

// StartLoad starts all producers.
func (e *Ensemble) StartLoad(ctx context.Context, l Load) error {
	l.Rate = e.share(l.Rate)
	return each(e.producing, func(_ int, w Worker) error { return w.StartLoad(ctx, l) })
}

// SetRate divides the rate.
func (e *Ensemble) SetRate(ctx context.Context, change RateChange) error {
	change.Rate = e.share(change.Rate)
	return each(e.producing, func(_ int, w Worker) error { return w.SetRate(ctx, change) })
}

// PauseConsumers pauses all.
func (e *Ensemble) PauseConsumers(ctx context.Context) error {
	return each(e.consuming, func(_ int, w Worker) error { return w.PauseConsumers(ctx) })
}

// ResumeConsumers resumes all.
func (e *Ensemble) ResumeConsumers(ctx context.Context) error {
	return each(e.consuming, func(_ int, w Worker) error { return w.ResumeConsumers(ctx) })
}

// ResetLatencies forgets those of all workers.
func (e *Ensemble) ResetLatencies(ctx context.Context) error {
	return each(e.all, func(_ int, w Worker) error { return w.ResetLatencies(ctx) })
}

// Counters adds up.
func (e *Ensemble) Counters(ctx context.Context) (load.Counters, error) {
	parts := make([]load.Counters, len(e.all))
	err := each(e.all, func(i int, w Worker) (err error) {
		parts[i], err = w.Counters(ctx)
		return err
	})
	var sum load.Counters
	for _, p := range parts {
		sum = sum.Add(p)
	}
	return sum, err
}

// Period adds up, and gives the CPU of the busiest worker.
func (e *Ensemble) Period(ctx context.Context) (Period, error) {
	parts := make([]Period, len(e.all))
	err := each(e.all, func(i int, w Worker) (err error) {
		parts[i], err = w.Period(ctx)
		return err
	})
	if err != nil {
		return Period{}, err
	}
	sum := parts[0]
	for _, p := range parts[1:] {
		sum.Merge(p.Period)
		if p.CPU.Share > sum.CPU.Share {
			sum.CPU = p.CPU
		}
	}
	return sum, nil
}

// Cumulative merges.
func (e *Ensemble) Cumulative(ctx context.Context) (load.Latencies, error) {
	parts := make([]load.Latencies, len(e.all))
	err := each(e.all, func(i int, w Worker) (err error) {
		parts[i], err = w.Cumulative(ctx)
		return err
	})
	if err != nil {
		return load.Latencies{}, err
	}
	for _, p := range parts[1:] {
		parts[0].Merge(p)
	}
	return parts[0], nil
}

// StopLoad stops all producers.
func (e *Ensemble) StopLoad(ctx context.Context) error {
	return each(e.producing, func(_ int, w Worker) error { return w.StopLoad(ctx) })
}

// Stop stops all workers.
func (e *Ensemble) Stop(ctx context.Context) error {
	return each(e.all, func(_ int, w Worker) error { return w.Stop(ctx) })
}
