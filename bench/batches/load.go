package batches

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	clients "github.com/freshet-io/freshet/bench/load"
	"github.com/freshet-io/freshet/internal/wait"
)

// load is what the producers' process does: it prints "warm" after the warm-up, and a loadResult at the end.
type load struct {
	Address     string        `json:"address"`
	Producers   int           `json:"producers"`
	Partitions  int           `json:"partitions"`
	RecordBytes int           `json:"record_bytes"`
	Rate        int           `json:"rate"`
	WarmUp      time.Duration `json:"warm_up"`
	Duration    time.Duration `json:"duration"`
}

// loadResult is what was acknowledged between "warm" and the end.
type loadResult struct {
	Records    int64   `json:"records"`
	Seconds    float64 `json:"seconds"`
	CPUSeconds float64 `json:"cpu"` // of this process
}

const (
	// batchOverhead is more than what a batch of one record has beside its value, and less than a second record of any
	// size that is measured.
	batchOverhead = 150
	// buffered are the records of one partition that each producer may have under way: one for each of the five requests
	// that an idempotent producer has in flight.
	buffered = 5
)

// RunRole is what a helper process runs.
func RunRole(ctx context.Context, name, spec string, out io.Writer) error {
	if name != roleLoad {
		return fmt.Errorf("unknown benchmark role %q", name)
	}
	var l load
	if err := json.Unmarshal([]byte(spec), &l); err != nil {
		return fmt.Errorf("decode load: %w", err)
	}
	return l.run(ctx, out)
}

func (l *load) run(ctx context.Context, out io.Writer) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	var acked atomic.Int64
	rate := clients.NewRate(float64(l.Rate))
	for range l.Producers {
		group.Go(func() error { return l.produce(ctx, rate, &acked) })
	}
	group.Go(func() error {
		defer stop()
		if err := wait.For(ctx, l.WarmUp); err != nil {
			return err
		}
		cpu, began, before := clients.NewCPU(), time.Now(), acked.Load()
		fmt.Fprintln(out, "warm")
		if err := wait.For(ctx, l.Duration); err != nil {
			return err
		}
		return json.NewEncoder(out).Encode(loadResult{
			Records: acked.Load() - before, Seconds: time.Since(began).Seconds(), CPUSeconds: cpu.Use().Seconds,
		})
	})
	return group.Wait()
}

// produce is one producer, until ctx ends; what is under way then is given up.
func (l *load) produce(ctx context.Context, rate *clients.Rate, acked *atomic.Int64) error {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(l.Address), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(kgo.RoundRobinPartitioner()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchMaxBytes(int32(l.RecordBytes+batchOverhead)), kgo.MaxBufferedRecords(buffered*l.Partitions),
	)
	if err != nil {
		return fmt.Errorf("make client: %w", err)
	}
	defer client.Close()
	value := make([]byte, l.RecordBytes)
	failed := make(chan error, 1)
	for ctx.Err() == nil {
		if l.Rate > 0 {
			if _, err := rate.Take(ctx); err != nil {
				break
			}
		}
		client.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err == nil {
				acked.Add(1)
				return
			}
			select {
			case failed <- err:
			default:
			}
		})
		select {
		case err := <-failed:
			if ctx.Err() == nil && !errors.Is(err, kgo.ErrClientClosed) {
				return fmt.Errorf("produce: %w", err)
			}
		default:
		}
	}
	return nil
}
