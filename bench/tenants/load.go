package tenants

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	topic       = "loaded"
	recordBytes = 1024
)

// producer sends records to one loaded virtual cluster at a rate.
type producer struct {
	client  *kgo.Client
	done    sync.WaitGroup
	mu      sync.Mutex
	longest time.Duration // from sending a record to its acknowledgement, since take
	acked   time.Time     // when the newest acknowledged record was sent
	errors  []error
}

func startProducer(ctx context.Context, address string, rate int) (*producer, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address), kgo.DefaultProduceTopic(topic), kgo.ProducerLinger(0), kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, -1, nil, topic); err != nil {
		client.Close()
		return nil, fmt.Errorf("create topic: %w", err)
	}
	p := &producer{client: client}
	p.done.Go(func() { p.run(ctx, time.Second/time.Duration(rate)) })
	return p, nil
}

func (p *producer) run(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	value := make([]byte, recordBytes)
	for {
		select {
		case <-ctx.Done():
			p.client.Close()
			return
		case <-tick.C:
		}
		sent := time.Now()
		p.client.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			p.mu.Lock()
			defer p.mu.Unlock()
			switch {
			case ctx.Err() != nil:
			case err != nil:
				p.errors = append(p.errors, err)
			default:
				p.longest = max(p.longest, time.Since(sent))
				if sent.After(p.acked) {
					p.acked = sent
				}
			}
		})
	}
}

// take returns the longest time to an acknowledgement since the last take, and the errors of the client.
func (p *producer) take() (longest time.Duration, errors []error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	longest, errors = p.longest, p.errors
	p.longest, p.errors = 0, nil
	return longest, errors
}

// since reports whether a record sent after t was acknowledged.
func (p *producer) since(t time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acked.After(t)
}
