// Package latency measures how long an idle agent takes to acknowledge a single record, next to what the object store
// took for that record's PUT. The difference is Freshet's own: linger, commit through etcd, scheduling. Everything runs
// in one process, as `freshet dev` does, over a bucket in memory that is as slow as a model says (objstore/latency); the
// PUT budget is production's, and records come slower than it, since with more of them latency is the budget's. PUTs are
// not hedged: each record has one PUT, and medians do not depend on it.
package latency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/internal/dev"
	"github.com/freshet-io/freshet/objstore"
	model "github.com/freshet-io/freshet/objstore/latency"
	"github.com/freshet-io/freshet/objstore/mem"
)

// Config of a run.
type Config struct {
	Records  int           // measured; default 200
	Interval time.Duration // mean time between them, drawn from half to one and a half of it; default 400 ms
	Bytes    int           // of a record; default 1024
	Model    string        // of the object store; default s3-standard
	Seed     uint64        // of model and intervals; default 1
	Out      io.Writer     // default: standard output
	Log      *zap.Logger   // default: none
}

// ApplyDefaults fills what is zero.
func (c *Config) ApplyDefaults() {
	setDefault(&c.Records, 200)
	setDefault(&c.Interval, 400*time.Millisecond)
	setDefault(&c.Bytes, 1024)
	setDefault(&c.Model, "s3-standard")
	setDefault(&c.Seed, 1)
	if c.Out == nil {
		c.Out = os.Stdout
	}
	if c.Log == nil {
		c.Log = zap.NewNop()
	}
}

func setDefault[T comparable](p *T, v T) {
	var zero T
	if *p == zero {
		*p = v
	}
}

// Result is what each record took, and its PUT, in the same order.
type Result struct{ Produce, Put []time.Duration }

// Percentile gives the q-quantile (0 to 1) of durations; they need not be sorted.
func Percentile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ds))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

const warmUp = 5 // records before those that are measured: connections, topic, producer id

// Run measures and prints percentiles. The last line is the difference of the medians in milliseconds.
func Run(ctx context.Context, cfg Config) (*Result, error) {
	cfg.ApplyDefaults()
	preset, err := model.Preset(cfg.Model)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "freshet-bench-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	bucket := &timedBucket{Bucket: model.New(mem.New(), preset, cfg.Seed)}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	greeting, greeted := io.Pipe()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer greeted.Close()
		return dev.Run(ctx, dev.Config{
			DataDir: dir, BucketURL: "mem://", Out: greeted, Program: "freshet", Log: cfg.Log, Agent: agent.Config{
				Bucket: bucket, Listen: []string{"127.0.0.1:0"}, HTTPListen: "127.0.0.1:0",
				MemoryLimit: 512 << 20, AutoCreateTopics: true,
			},
		})
	})
	var result *Result
	group.Go(func() (err error) {
		defer cancel()
		var address string
		if _, err := fmt.Fscanf(greeting, "freshet is ready, bootstrap address %s\n", &address); err != nil {
			return fmt.Errorf("start: %w", err)
		}
		go func() { _, _ = io.Copy(io.Discard, greeting) }() // ends when dev.Run does
		result, err = produce(ctx, cfg, address, bucket)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	result.print(cfg.Out)
	return result, nil
}

// produce sends one record at a time.
func produce(ctx context.Context, cfg Config, address string, bucket *timedBucket) (*Result, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(address), kgo.DefaultProduceTopic("latency"), kgo.ProducerLinger(0), kgo.AllowAutoTopicCreation(),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	defer client.Close()
	rng := rand.New(rand.NewPCG(cfg.Seed, cfg.Seed))
	r := &Result{}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for i := range warmUp + cfg.Records {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		timer.Reset(cfg.Interval/2 + time.Duration(rng.Int64N(int64(cfg.Interval))))
		bucket.take()
		value := make([]byte, cfg.Bytes)
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		began := time.Now()
		if err := client.ProduceSync(ctx, &kgo.Record{Value: value}).FirstErr(); err != nil {
			return nil, fmt.Errorf("produce: %w", err)
		}
		took := time.Since(began)
		puts := bucket.take()
		if len(puts) == 0 {
			return nil, errors.New("a record was acknowledged without a PUT")
		}
		if i >= warmUp {
			r.Produce, r.Put = append(r.Produce, took), append(r.Put, slices.Min(puts))
		}
	}
	return r, nil
}

func (r *Result) print(w io.Writer) {
	ms := func(ds []time.Duration, q float64) float64 { return float64(Percentile(ds, q).Microseconds()) / 1000 }
	own := make([]time.Duration, len(r.Produce))
	for i := range own {
		own[i] = r.Produce[i] - r.Put[i]
	}
	fmt.Fprintf(w, "%d records\n%-22s %8s %8s %8s\n", len(r.Produce), "ms", "p50", "p90", "p99")
	for _, line := range []struct {
		what string
		ds   []time.Duration
	}{{"produce", r.Produce}, {"its PUT", r.Put}, {"produce less its PUT", own}} {
		fmt.Fprintf(w, "%-22s %8.1f %8.1f %8.1f\n", line.what, ms(line.ds, 0.5), ms(line.ds, 0.9), ms(line.ds, 0.99))
	}
	fmt.Fprintf(w, "idle_p50_over_put_ms %.1f\n", ms(r.Produce, 0.5)-ms(r.Put, 0.5))
}

// timedBucket notes how long each PUT took.
type timedBucket struct {
	objstore.Bucket
	mu   sync.Mutex
	puts []time.Duration
}

// Put notes its duration.
func (b *timedBucket) Put(ctx context.Context, key string, body objstore.Body) error {
	began := time.Now()
	err := b.Bucket.Put(ctx, key, body)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.puts = append(b.puts, time.Since(began))
	}
	return err
}

// take gives the durations since the last take.
func (b *timedBucket) take() []time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	puts := b.puts
	b.puts = nil
	return puts
}
