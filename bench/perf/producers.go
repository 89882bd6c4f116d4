package perf

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/freshet-io/freshet/bench/load"
)

// makeProducers makes the producers: together, or each topic's apart if topics have payloads of their own.
func (t *test) makeProducers() error {
	payloads, err := t.payloads()
	if err != nil {
		return err
	}
	together := load.ProducerSpec{Options: t.options.producer, Keys: load.RoundRobin, SendTimeHeader: sendTimeHeader}
	for _, topic := range t.topics {
		own := together
		own.Topics, own.Payloads = nil, payloads(topic.Name)
		for range t.cfg.Producers {
			own.Topics = append(own.Topics, topic.Name)
		}
		if t.cfg.ValueSchema != "" {
			own.Senders = 1
			if err := t.addProducers(own); err != nil {
				return err
			}
			continue
		}
		together.Topics, together.Payloads = append(together.Topics, own.Topics...), own.Payloads
	}
	if t.cfg.ValueSchema != "" {
		return nil
	}
	return t.addProducers(together)
}

func (t *test) addProducers(spec load.ProducerSpec) error {
	p, err := load.NewProducers(spec, t.rate, t.stats)
	if err != nil {
		return err
	}
	t.producers = append(t.producers, p)
	return nil
}

// payloads gives the values for each topic.
func (t *test) payloads() (func(topic string) load.Payloads, error) {
	if t.cfg.ValueSchema != "" {
		return t.avroPayloads()
	}
	pool := t.cfg.RandomPoolSize
	if int(float64(t.cfg.RecordSize)*t.cfg.RandomRatio) == 0 {
		pool = 1 // all would be the same
	}
	same, err := load.RandomPayloads(t.cfg.RecordSize, t.cfg.RandomRatio, pool)
	return func(string) load.Payloads { return same }, err
}

// flushTimeout bounds how long producers wait for the answers to what they have sent.
const flushTimeout = 30 * time.Second

func (t *test) stopProducers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTimeout)
	defer cancel()
	errs := make([]error, len(t.producers))
	var wait sync.WaitGroup
	for i, p := range t.producers {
		wait.Go(func() { errs[i] = p.Stop(ctx) })
	}
	wait.Wait()
	return errors.Join(errs...)
}
