package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/freshet-io/freshet/bench/load"
)

// CreateTopics makes topics, after removing those of earlier runs if that is asked for.
func (l *Local) CreateTopics(ctx context.Context, topics Topics) error {
	r, err := l.current()
	if err != nil {
		return err
	}
	if topics.ResetPrefix != "" {
		mine := func(name string) bool { return strings.HasPrefix(name, topics.ResetPrefix) }
		if _, err := load.DeleteTopics(ctx, r.admin.Options, mine); err != nil {
			return err
		}
	}
	return load.CreateTopics(ctx, r.admin.Options, topics.Topics, topics.Replication, topics.Configs, nil)
}

// CreateProducers makes producers, once for each run; without topics it does nothing.
func (l *Local) CreateProducers(_ context.Context, topics []string) error {
	r, err := l.current()
	if err != nil || len(topics) == 0 {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.producers != nil {
		return fmt.Errorf("%w: producers exist already", ErrOrder)
	}
	r.producers, err = load.NewProducers(load.ProducerSpec{Topics: topics, Options: r.producer.Options}, r.rate, r.stats)
	return err
}

// CreateConsumers makes consumers.
func (l *Local) CreateConsumers(_ context.Context, subscriptions []load.Subscription) error {
	r, err := l.current()
	if err != nil {
		return err
	}
	consumers, err := load.StartConsumers(load.ConsumerSpec{
		Subscriptions: subscriptions, Options: r.consumer.Options,
		CommitPolled: !r.consumer.AutoCommit, MaxPollRecords: r.consumer.MaxPollRecords,
	}, r.stats)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.consumers = append(r.consumers, consumers)
	return nil
}

// Probe sends a message with each producer.
func (l *Local) Probe(ctx context.Context) error {
	r, err := l.current()
	if err != nil {
		return err
	}
	if producers := r.sending(); producers != nil {
		return producers.Probe(ctx)
	}
	return nil
}

func (r *run) sending() *load.Producers {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.producers
}

// StartLoad begins to send; without producers it does nothing.
func (l *Local) StartLoad(_ context.Context, what Load) error {
	r, err := l.current()
	if err != nil {
		return err
	}
	keys, err := load.ParseKeys(string(what.Keys))
	if err != nil {
		return err
	}
	producers := r.sending()
	if producers == nil {
		return nil
	}
	payloads := load.Payloads{what.Payload.Content}
	if what.Payload.Content == nil {
		if payloads, err = load.RandomPayloads(what.Payload.Size, what.Payload.Ratio, what.Payload.Pool); err != nil {
			return err
		}
	}
	producers.SetMessages(keys, payloads)
	r.rate.Restart(max(leastRate, what.Rate))
	return producers.Start()
}

// SetRate changes the rate; it is at least one message a second.
func (l *Local) SetRate(_ context.Context, change RateChange) error {
	r, err := l.current()
	if err != nil {
		return err
	}
	if rate := max(leastRate, change.Rate); change.Restart {
		r.rate.Restart(rate)
	} else {
		r.rate.Set(rate)
	}
	return nil
}

// PauseConsumers stops polling.
func (l *Local) PauseConsumers(context.Context) error {
	return l.eachConsumers((*load.Consumers).Pause)
}

// ResumeConsumers polls again.
func (l *Local) ResumeConsumers(context.Context) error {
	return l.eachConsumers((*load.Consumers).Resume)
}

func (l *Local) eachConsumers(do func(*load.Consumers)) error {
	r, err := l.current()
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.consumers {
		do(c)
	}
	return nil
}

// ResetLatencies forgets latencies.
func (l *Local) ResetLatencies(context.Context) error {
	r, err := l.current()
	if err != nil {
		return err
	}
	r.stats.ResetLatencies()
	return nil
}

// Counters gives totals since Init.
func (l *Local) Counters(context.Context) (load.Counters, error) {
	r, err := l.current()
	if err != nil {
		return load.Counters{}, err
	}
	return r.stats.Counters(), nil
}

// Period gives what happened since the call before.
func (l *Local) Period(context.Context) (Period, error) {
	r, err := l.current()
	if err != nil {
		return Period{}, err
	}
	return Period{Period: r.stats.Snapshot(), CPU: r.cpu.Use()}, nil
}

// Cumulative gives latencies since ResetLatencies.
func (l *Local) Cumulative(context.Context) (load.Latencies, error) {
	r, err := l.current()
	if err != nil {
		return load.Latencies{}, err
	}
	return r.stats.Cumulative(), nil
}

// StopLoad ends sending and closes the producers.
func (l *Local) StopLoad(ctx context.Context) error {
	r, err := l.current()
	if err != nil {
		return err
	}
	return r.stopLoad(ctx)
}

func (r *run) stopLoad(ctx context.Context) error {
	r.mu.Lock()
	producers := r.producers
	r.producers = nil
	r.mu.Unlock()
	if producers == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	return producers.Stop(ctx)
}

// Stop ends the run; without one it does nothing.
func (l *Local) Stop(ctx context.Context) error {
	l.mu.Lock()
	r := l.run
	l.run = nil
	l.mu.Unlock()
	if r == nil {
		return nil
	}
	err := r.stopLoad(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	errs := []error{err}
	for _, c := range r.consumers {
		errs = append(errs, c.Close())
	}
	r.consumers = nil
	return errors.Join(errs...)
}
