package catchup

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	clients "github.com/freshet-io/freshet/bench/load"
)

// topic is what everybody writes and reads.
const topic = "catchup"

// stampBytes begin a record's value: when it was sent, ns of the process's clock.
const stampBytes = 8

// load is what the clients of one process do.
type load struct {
	Address     string        `json:"address"`
	Partitions  int           `json:"partitions"`
	RecordBytes int           `json:"record_bytes"`
	Bytes       int64         `json:"bytes"` // of fill
	Rate        int64         `json:"rate"`  // of a turn
	Duration    time.Duration `json:"duration"`
	WarmUp      time.Duration `json:"warm_up"`

	Groups    int           `json:"groups"`
	Gap       time.Duration `json:"gap"`
	GroupRate int64         `json:"group_rate"`
	Name      string        `json:"name"` // of the groups, new in each turn
	Ends      []int64       `json:"ends"` // where the backlog ends, by partition
}

// result is what they saw.
type result struct {
	Ends       []int64       `json:"ends"`     // of fill: where each partition ends
	Bytes      int64         `json:"bytes"`    // of values produced after the warm-up
	Elapsed    time.Duration `json:"elapsed"`  // in which that was
	Produce99  time.Duration `json:"produce"`  // 99th percentiles
	Tail99     time.Duration `json:"tail"`     // from sending to arrival
	CatchUp    int64         `json:"catch_up"` // bytes of values that groups read
	Busy       time.Duration `json:"busy"`     // while at least one group was reading
	CPUSeconds float64       `json:"cpu"`      // of this process
}

// fill makes the topic and produces the backlog as fast as that goes.
func (l *load) fill(ctx context.Context) (*result, error) {
	client, err := l.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	if _, err := admin.CreateTopic(ctx, int32(l.Partitions), -1, nil, topic); err != nil {
		return nil, fmt.Errorf("create topic: %w", err)
	}
	var failed error
	var once sync.Once
	rng := rand.New(rand.NewPCG(1, 1))
	for sent := int64(0); sent < l.Bytes; sent += int64(l.RecordBytes) {
		client.Produce(ctx, l.record(rng), func(_ *kgo.Record, err error) {
			if err != nil {
				once.Do(func() { failed = err })
			}
		})
	}
	if err := errors.Join(client.Flush(ctx), failed); err != nil {
		return nil, fmt.Errorf("produce backlog: %w", err)
	}
	r := &result{}
	r.Ends, err = ends(ctx, admin, l.Partitions)
	return r, err
}

func ends(ctx context.Context, admin *kadm.Client, partitions int) ([]int64, error) {
	listed, err := admin.ListEndOffsets(ctx, topic)
	if err = errors.Join(err, listed.Error()); err != nil {
		return nil, fmt.Errorf("list end offsets: %w", err)
	}
	list := make([]int64, partitions)
	listed.Each(func(o kadm.ListedOffset) { list[o.Partition] = o.Offset })
	return list, nil
}

func (l *load) client(opts ...kgo.Opt) (*kgo.Client, error) {
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(l.Address), kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.ProducerLinger(5 * time.Millisecond), kgo.RecordPartitioner(kgo.StickyPartitioner()),
	}, opts...)...)
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return client, nil
}

// record has a value that does not compress.
func (l *load) record(rng *rand.Rand) *kgo.Record {
	value := make([]byte, l.RecordBytes)
	for at := stampBytes; at+8 <= len(value); at += 8 {
		binary.LittleEndian.PutUint64(value[at:], rng.Uint64())
	}
	return &kgo.Record{Value: value}
}

// turn produces at the rate while a consumer follows, and groups read the backlog if there are any.
func (l *load) turn(ctx context.Context) (*result, error) {
	t := turn{load: l, began: time.Now(), latencies: clients.NewLatencies()}
	cpu := clients.NewCPU()
	tail, err := t.tailClient(ctx)
	if err != nil {
		return nil, err
	}
	defer tail.Close()
	group, ctx := errgroup.WithContext(ctx)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	group.Go(func() error { return t.follow(reading, tail) })
	group.Go(func() error {
		defer stop()
		return t.produceAndRead(ctx)
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	t.result.CPUSeconds = cpu.Use().Seconds
	t.result.Produce99 = time.Duration(t.latencies.Publish.ValueAtQuantile(99)) * time.Microsecond
	t.result.Tail99 = time.Duration(t.latencies.EndToEnd.ValueAtQuantile(99)) * time.Microsecond
	return &t.result, nil
}

// turn is one under way.
type turn struct {
	load      *load
	began     time.Time
	mu        sync.Mutex // of what follows
	latencies clients.Latencies
	result    result
	spans     []span
}

// produceAndRead produces until the groups are done, and for the turn's duration at least.
func (t *turn) produceAndRead(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	producing, stop := context.WithCancel(ctx)
	group.Go(func() error { return t.produce(producing) })
	group.Go(func() error {
		defer stop()
		err := t.readBacklog(ctx)
		select {
		case <-time.After(t.load.Duration - time.Since(t.began)):
		case <-ctx.Done():
		}
		return err
	})
	return group.Wait()
}

// produce sends records at the rate.
func (t *turn) produce(ctx context.Context) error {
	client, err := t.load.client()
	if err != nil {
		return err
	}
	defer client.Close()
	size := t.load.RecordBytes
	pace := rate.NewLimiter(rate.Limit(t.load.Rate), max(size, int(t.load.Rate/4)))
	rng := rand.New(rand.NewPCG(2, uint64(t.began.UnixNano())))
	var failed error
	for pace.WaitN(ctx, size) == nil {
		record, sent := t.load.record(rng), time.Since(t.began)
		binary.BigEndian.PutUint64(record.Value, uint64(sent))
		client.Produce(context.WithoutCancel(ctx), record, func(_ *kgo.Record, err error) {
			took := time.Since(t.began) - sent
			t.mu.Lock()
			defer t.mu.Unlock()
			if err != nil {
				failed = err
			} else if sent >= t.load.WarmUp {
				_ = t.latencies.Publish.RecordValue(took.Microseconds())
				t.result.Bytes += int64(size)
				t.result.Elapsed = sent - t.load.WarmUp
			}
		})
	}
	if err := client.Flush(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if failed != nil {
		return fmt.Errorf("produce: %w", failed)
	}
	return nil
}

// tailClient consumes from where the topic ends now.
func (t *turn) tailClient(ctx context.Context) (*kgo.Client, error) {
	client, err := t.load.client()
	if err != nil {
		return nil, err
	}
	defer client.Close()
	list, err := ends(ctx, kadm.NewClient(client), t.load.Partitions)
	if err != nil {
		return nil, err
	}
	from := make(map[int32]kgo.Offset)
	for p, offset := range list {
		from[int32(p)] = kgo.NewOffset().At(offset)
	}
	return t.load.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
}

// follow measures how long records take from being sent to arriving.
func (t *turn) follow(ctx context.Context, client *kgo.Client) error {
	for {
		fetches := client.PollFetches(ctx)
		select {
		case <-ctx.Done(): // all is produced
			return nil
		default:
		}
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("follow: %w", err)
		}
		now := time.Since(t.began)
		t.mu.Lock()
		fetches.EachRecord(func(r *kgo.Record) {
			if sent := time.Duration(binary.BigEndian.Uint64(r.Value)); sent >= t.load.WarmUp {
				_ = t.latencies.EndToEnd.RecordValue(max(now-sent, 0).Microseconds())
			}
		})
		t.mu.Unlock()
	}
}
