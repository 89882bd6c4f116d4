package elastic

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/stock"
)

// franz is franz-go, in this process.
type franz struct {
	writer  *franzWriter
	readers map[string]*franzReader
}

func newFranz() *franz { return &franz{readers: make(map[string]*franzReader)} }

// franzOptions translates a configuration.
func franzOptions(j *stock.Job) []kgo.Opt {
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(j.Config["bootstrap.servers"], ",")...), kgo.ClientID(j.Config["client.id"]),
		kgo.AlwaysRetryEOF(), // an agent that is killed at a connection's first request is no listener that wants SASL
	}
	if ms, err := strconv.Atoi(j.Config["metadata.max.age.ms"]); err == nil {
		options = append(options, kgo.MetadataMaxAge(time.Duration(ms)*time.Millisecond))
	}
	if ms, err := strconv.Atoi(j.Config["session.timeout.ms"]); err == nil {
		options = append(options, kgo.SessionTimeout(time.Duration(ms)*time.Millisecond))
	}
	if rack := j.Config["client.rack"]; rack != "" {
		options = append(options, kgo.Rack(rack), kgo.BalanceRacks())
	}
	return options
}

type franzWriter struct {
	client *kgo.Client
	stop   context.CancelFunc
	done   chan struct{}

	mu struct {
		sync.Mutex
		stock.Marks
		pending map[string]time.Time // by value: when it was sent
	}
}

func (f *franz) Write(t testing.TB, j stock.Job) {
	t.Helper()
	client, err := kgo.NewClient(append(franzOptions(&j), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(j.Topic))...)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	w := &franzWriter{client: client, stop: stop, done: make(chan struct{})}
	w.mu.Offsets, w.mu.pending = make([][]int64, j.Partitions), make(map[string]time.Time)
	f.writer = w
	t.Cleanup(func() { stop(); client.Close() })
	go w.run(ctx, j)
}

func (w *franzWriter) run(ctx context.Context, j stock.Job) {
	defer close(w.done)
	tick := time.NewTicker(time.Duration(j.IntervalMs) * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		for p := range j.Partitions {
			w.send(j.Name, p)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

func (w *franzWriter) send(name string, p int) {
	w.mu.Lock()
	seq := len(w.mu.Offsets[p])
	w.mu.Offsets[p] = append(w.mu.Offsets[p], -1)
	value, began := fmt.Sprintf("%s/%d/%d", name, p, seq), time.Now()
	w.mu.pending[value] = began
	w.mu.Unlock()
	record := &kgo.Record{Partition: int32(p), Key: fmt.Appendf(nil, "key-%d", seq%16), Value: []byte(value)}
	w.client.Produce(context.Background(), record, func(r *kgo.Record, err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.mu.pending, value)
		if err != nil {
			w.mu.Failures = append(w.mu.Failures, fmt.Sprintf("%s: %v", value, err))
			return
		}
		w.mu.Micros = append(w.mu.Micros, time.Since(began).Microseconds())
		w.mu.Offsets[p][seq] = max(r.Offset, -2)
	})
}

func (f *franz) Mark(testing.TB) stock.Marks {
	w := f.writer
	w.mu.Lock()
	defer w.mu.Unlock()
	m := stock.Marks{Micros: w.mu.Micros, Failures: w.mu.Failures}
	w.mu.Micros = nil
	for _, began := range w.mu.pending {
		m.Oldest = max(m.Oldest, time.Since(began).Microseconds())
	}
	return m
}

func (f *franz) Finish(t testing.TB) stock.Marks {
	t.Helper()
	f.writer.stop()
	<-f.writer.done
	ctx, cancel := context.WithTimeout(t.Context(), finishing)
	defer cancel()
	require.NoError(t, f.writer.client.Flush(ctx))
	m := f.Mark(t)
	m.Offsets = f.writer.mu.Offsets // nobody writes any more
	return m
}

type franzReader struct {
	client *kgo.Client
	stop   context.CancelFunc
	done   chan struct{}

	mu struct {
		sync.Mutex
		stock.Reading
		open map[string]int // writer/partition to its run's index
	}
}

func (f *franz) Join(t testing.TB, j stock.Job) {
	t.Helper()
	r := &franzReader{done: make(chan struct{})}
	r.mu.open = make(map[string]int)
	options := append(franzOptions(&j), kgo.ConsumeResetOffset(kgo.NoResetOffset()))
	if j.Partitions > 0 {
		from := make(map[int32]kgo.Offset)
		for p := range j.Partitions {
			from[int32(p)] = kgo.NewOffset().At(0)
		}
		options = append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{j.Topic: from}))
	} else {
		options = append(options, kgo.ConsumeTopics(j.Topic), kgo.ConsumerGroup(j.Config["group.id"]),
			kgo.OnPartitionsAssigned(r.assigned), kgo.OnPartitionsRevoked(r.revoked), kgo.OnPartitionsLost(r.lost))
		if j.Config["group.protocol"] == "consumer" {
			options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
		}
	}
	client, err := kgo.NewClient(options...)
	require.NoError(t, err)
	r.client = client
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	f.readers[j.Name] = r
	t.Cleanup(func() { stop(); <-r.done; client.CloseAllowingRebalance() })
	go r.run(ctx)
}

func (r *franzReader) run(ctx context.Context) {
	defer close(r.done)
	for ctx.Err() == nil {
		fetches := r.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		fetches.EachError(func(_ string, p int32, err error) {
			var away *kgo.ErrGroupSession
			if errors.As(err, &away) {
				return // tells that there is no agent; it goes on by itself
			}
			r.mu.Faults = append(r.mu.Faults, fmt.Sprintf("partition %d: %v", p, err))
		})
		fetches.EachRecord(r.note)
		r.mu.Unlock()
	}
}

// note takes one record. Called with mu held.
func (r *franzReader) note(record *kgo.Record) {
	value := string(record.Value)
	slash := strings.LastIndexByte(value, '/')
	writer, number := value[:slash], value[slash+1:]
	seq, err := strconv.Atoi(number)
	if err != nil {
		r.mu.Faults = append(r.mu.Faults, fmt.Sprintf("no record of this test: %q", value))
		return
	}
	i, ok := r.mu.open[writer]
	if !ok {
		i = len(r.mu.Runs)
		r.mu.open[writer] = i
		r.mu.Runs = append(r.mu.Runs, stock.Run{Writer: writer[:strings.LastIndexByte(writer, '/')], Partition: record.Partition, First: seq, Next: seq})
	}
	if expected := r.mu.Runs[i].Next; expected != seq {
		r.mu.Faults = append(r.mu.Faults, fmt.Sprintf("%s at offset %d where %d was to come", value, record.Offset, expected))
	}
	r.mu.Runs[i].Next = seq + 1
}

func (r *franzReader) assigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, list := range partitions {
		for _, p := range list {
			for w := range r.mu.open {
				if strings.HasSuffix(w, fmt.Sprintf("/%d", p)) {
					delete(r.mu.open, w)
				}
			}
		}
	}
	r.change(partitions, 1)
}

func (r *franzReader) revoked(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.change(partitions, -1)
}

func (r *franzReader) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Losses++
	r.change(partitions, -1)
}

// change counts. Called with mu held.
func (r *franzReader) change(partitions map[string][]int32, sign int) {
	for _, list := range partitions {
		r.mu.Assigned += sign * len(list)
	}
	r.mu.Changes++
}

func (f *franz) Look(_ testing.TB, name string) stock.Reading {
	r := f.readers[name]
	_, generation := r.client.GroupMetadata()
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.mu.Reading
	all.Runs = append([]stock.Run(nil), all.Runs...)
	all.Generation = int(generation)
	return all
}

func (f *franz) Leave(t testing.TB, name string) stock.Reading {
	t.Helper()
	r := f.readers[name]
	r.stop()
	<-r.done
	last := f.Look(t, name)
	r.client.CloseAllowingRebalance()
	return last
}
