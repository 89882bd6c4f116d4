package scale

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/bench/load"
)

const (
	producedTopic      = "produced"
	producedPartitions = 16
	recordBytes        = 1024
)

// producers is a process that produces at a rate; /take gives what it saw since the last.
type producers struct {
	Addresses []string `json:"addresses"`
	Rate      int      `json:"rate"` // records a second

	mu        sync.Mutex
	latencies load.Latencies
	failed    error
}

// produced is what producers saw: latencies in milliseconds.
type produced struct {
	Records int64   `json:"records"`
	P50     float64 `json:"p50"`
	P99     float64 `json:"p99"`
}

func (p *producers) run(ctx context.Context, out io.Writer) error {
	p.latencies = load.NewLatencies()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(p.Addresses...), kgo.DefaultProduceTopic(producedTopic), kgo.ProducerLinger(time.Millisecond),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer client.Close()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, producedPartitions, -1, nil, producedTopic); err != nil {
		return fmt.Errorf("create topic: %w", err)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.produce(ctx, client) })
	group.Go(func() error { return serve(ctx, out, "/take", p.take) })
	return group.Wait()
}

func (p *producers) produce(ctx context.Context, client *kgo.Client) error {
	rate := load.NewRate(float64(p.Rate))
	value := make([]byte, recordBytes)
	for {
		_, _ = rate.Take(ctx) // fails only when ctx has ended
		select {
		case <-ctx.Done():
			return nil
		default:
		}
		sent := time.Now()
		client.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			took := time.Since(sent)
			p.mu.Lock()
			defer p.mu.Unlock()
			if err != nil {
				p.failed = errors.Join(p.failed, err)
				return
			}
			_ = p.latencies.Publish.RecordValue(took.Microseconds()) // within the range
		})
	}
}

func (p *producers) take(*http.Request) (any, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failed != nil {
		return nil, p.failed
	}
	h := p.latencies.Publish
	r := produced{
		Records: h.TotalCount(), P50: float64(h.ValueAtQuantile(50)) / 1000, P99: float64(h.ValueAtQuantile(99)) / 1000,
	}
	p.latencies.Reset()
	return r, nil
}
