package latency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/internal/dev"
	"github.com/freshet-io/freshet/internal/wait"
	model "github.com/freshet-io/freshet/objstore/latency"
	"github.com/freshet-io/freshet/objstore/mem"
)

const (
	topic       = "latency"
	agentMemory = 1 << 30
	agentPorts  = 4 // as agents have by default
	// readyLimit bounds how long an agent takes to serve a new topic, and drainLimit how long what was acknowledged takes to
	// the consumer at the end.
	readyLimit = 30 * time.Second
	drainLimit = 15 * time.Second
)

// measure starts an agent of its own for the point.
func measure(ctx context.Context, cfg *Config, p Point) (*Figures, error) {
	preset, err := model.Preset(p.Model)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "freshet-bench-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer os.RemoveAll(dir)
	store := mem.New()
	bucket := &putBucket{Bucket: model.New(store, preset, cfg.Seed+p.seed()), store: store}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	greeting, greeted := io.Pipe()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer greeted.Close()
		return dev.Run(ctx, dev.Config{
			DataDir: dir, BucketURL: "mem://", Bucket: store, Out: greeted, Program: "freshet", Log: cfg.Log, Agent: agent.Config{
				Bucket: bucket, Hedge: cfg.Hedge, PutBudget: p.Budget, Listen: slices.Repeat([]string{"127.0.0.1:0"}, agentPorts), HTTPListen: "127.0.0.1:0",
				MemoryLimit: agentMemory, Roles: []string{agent.RoleProduce, agent.RoleFetch},
			},
		})
	})
	var figures *Figures
	group.Go(func() (err error) {
		defer cancel()
		var address string
		if _, err := fmt.Fscanf(greeting, "freshet is ready, bootstrap address %s\n", &address); err != nil {
			return fmt.Errorf("start: %w", err)
		}
		go func() { _, _ = io.Copy(io.Discard, greeting) }() // ends when dev.Run does
		run := run{cfg: cfg, point: p, address: address, bucket: bucket}
		figures, err = run.measure(ctx)
		return err
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return figures, nil
}

// run is the clients of one measurement.
type run struct {
	cfg     *Config
	point   Point
	address string
	bucket  *putBucket
	ledger  *ledger
	leaders []int32 // by partition
}

// measure produces and consumes for the warm-up and the duration, and checks every record.
func (r *run) measure(ctx context.Context) (*Figures, error) {
	consumer, err := r.prepare(ctx)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	if err := wait.For(ctx, r.cfg.Idle); err != nil {
		return nil, err
	}
	r.ledger = newLedger(r.cfg.WarmUp)
	group, ctx := errgroup.WithContext(ctx)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	group.Go(func() error { return r.follow(reading, consumer) })
	var seen puts
	group.Go(func() error {
		defer stop()
		var err error
		if seen, err = r.produceMeasured(ctx); err != nil {
			return err
		}
		return r.awaitConsumer(ctx)
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := r.ledger.check(); err != nil {
		return nil, err
	}
	return r.figures(seen)
}

func (r *run) figures(seen puts) (*Figures, error) {
	m := r.ledger.measured()
	if len(seen.durations) == 0 || m.records == 0 {
		return nil, errors.New("nothing was acknowledged in the time measured")
	}
	f := &Figures{Point: r.point, Records: m.records, PutP50: quantile(seen.durations, 0.5)}
	f.Rate = float64(m.bytes) / r.lasts().Seconds()
	if r.point.Load > 0 {
		f.Floor = seen.floor(r.leaders)
	}
	f.Seals, f.Puts = float64(seen.sealed())/seen.seconds, float64(seen.begun)/seen.seconds
	f.Produce, f.EndToEnd = m.produce, m.endToEnd
	return f, nil
}

// lasts is how long the measurement takes: with few PUTs, their median and that of records are a matter of luck.
func (r *run) lasts() time.Duration {
	return max(r.cfg.Duration, time.Duration(float64(r.cfg.Puts)/r.point.Budget*float64(time.Second)))
}

// produceMeasured produces and gives the PUTs of the time measured.
func (r *run) produceMeasured(ctx context.Context) (seen puts, err error) {
	producing, stop := context.WithTimeout(ctx, r.cfg.WarmUp+r.lasts())
	defer stop()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if r.point.Load == 0 {
			return r.idle(ctx, producing)
		}
		return r.load(ctx, producing)
	})
	group.Go(func() error {
		err := wait.For(ctx, r.cfg.WarmUp)
		r.bucket.take()
		began := time.Now()
		err = errors.Join(err, wait.For(ctx, r.lasts()))
		seen = r.bucket.take()
		seen.seconds = time.Since(began).Seconds() // a busy machine wakes late
		return err
	})
	err = group.Wait()
	return seen, err
}

// prepare makes the topic and a consumer at its end.
func (r *run) prepare(ctx context.Context) (*kgo.Client, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyLimit, errors.New("the agent did not get ready"))
	defer cancel()
	admin, err := r.client()
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	if _, err := kadm.NewClient(admin).CreateTopic(ctx, int32(r.cfg.Partitions), -1, nil, topic); err != nil {
		return nil, fmt.Errorf("create topic: %w", err)
	}
	known, err := kadm.NewClient(admin).ListTopics(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("list topic: %w", err)
	}
	for _, p := range known[topic].Partitions.Sorted() {
		r.leaders = append(r.leaders, p.Leader)
	}
	from := map[int32]kgo.Offset{}
	for p := range r.cfg.Partitions {
		from[int32(p)] = kgo.NewOffset().At(0)
	}
	return r.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
}

// client has no compression: records do not compress.
func (r *run) client(opts ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(r.address), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// follow enters what the consumer finds.
func (r *run) follow(ctx context.Context, client *kgo.Client) error {
	for {
		fetches := client.PollFetches(ctx)
		select {
		case <-ctx.Done(): // everything was found, or the run failed
			return nil
		default:
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		r.ledger.read(fetches)
	}
}

// awaitConsumer waits until the consumer has found everything; what it lacks after the limit is told by the ledger.
func (r *run) awaitConsumer(ctx context.Context) error {
	limit := time.NewTimer(drainLimit)
	defer limit.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !r.ledger.complete() {
		select {
		case <-tick.C:
		case <-limit.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}
