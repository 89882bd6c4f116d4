package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Load keeps producers writing into a topic, one record after the other per partition at the interval, noting all.
type Load struct {
	Ledger     *Ledger
	Topic      string
	Partitions int32
	Producers  int
	Interval   time.Duration // between records of one producer to one partition
	Options    []kgo.Opt     // seed brokers and whatever the test is about

	mu struct {
		sync.Mutex
		longest  time.Duration // between one acknowledgement and the next, over all
		lastAck  time.Time
		stalled  time.Duration // the same of one writer, the longest of all
		acks     map[Writer]time.Time
		failures []error
	}
}

// Run produces until ctx ends, then waits for what is in flight, at most the drain time.
func (l *Load) Run(ctx context.Context, drain time.Duration) error {
	var wg sync.WaitGroup
	errs := make([]error, l.Producers)
	for i := range l.Producers {
		wg.Go(func() { errs[i] = l.produce(ctx, fmt.Sprintf("p%d", i), drain) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (l *Load) produce(ctx context.Context, name string, drain time.Duration) error {
	options := append([]kgo.Opt{
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(l.Topic),
		kgo.AlwaysRetryEOF(), // an agent that is killed at a connection's first request is no listener that wants SASL
	}, l.Options...)
	client, err := kgo.NewClient(options...)
	if err != nil {
		return fmt.Errorf("producer %s: %w", name, err)
	}
	defer client.Close()
	tick := time.NewTicker(l.Interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		for p := range l.Partitions {
			w := Writer{Name: name, Partition: p}
			seq, value := l.Ledger.Send(w)
			record := &kgo.Record{Partition: p, Value: []byte(value)}
			client.Produce(context.WithoutCancel(ctx), record, func(r *kgo.Record, err error) { l.answered(w, seq, r, err) })
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	flush, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	if err := client.Flush(flush); err != nil {
		return fmt.Errorf("producer %s: flush: %w", name, err)
	}
	return nil
}

func (l *Load) answered(w Writer, seq int, r *kgo.Record, err error) {
	if err == nil {
		l.Ledger.Ack(w, seq, r.Offset)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.mu.failures = append(l.mu.failures, err)
		return
	}
	now := time.Now()
	if !l.mu.lastAck.IsZero() {
		l.mu.longest = max(l.mu.longest, now.Sub(l.mu.lastAck))
	}
	l.mu.lastAck = now
	if last, ok := l.mu.acks[w]; ok {
		l.mu.stalled = max(l.mu.stalled, now.Sub(last))
	} else if l.mu.acks == nil {
		l.mu.acks = make(map[Writer]time.Time)
	}
	l.mu.acks[w] = now
}

// LongestWriterStall gives the longest time that any one writer waited between two of its acknowledgements, since the
// start or the last ResetStalls.
func (l *Load) LongestWriterStall() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.stalled
}

// ResetStalls begins the measurement of stalls anew. A wait that is going on now counts whole when it ends.
func (l *Load) ResetStalls() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.longest, l.mu.stalled = 0, 0
}

// LongestStall gives the longest time between two acknowledgements so far, over all producers.
func (l *Load) LongestStall() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.longest
}

// Failures gives the errors that producers gave up with.
func (l *Load) Failures() []error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]error(nil), l.mu.failures...)
}

// ReadAll reads every partition from the start to the end it has now.
func ReadAll(ctx context.Context, topic string, ends map[int32]int64, options ...kgo.Opt) ([]Read, error) {
	offsets := make(map[int32]kgo.Offset)
	left := 0
	for p, end := range ends {
		offsets[p] = kgo.NewOffset().AtStart()
		if end > 0 {
			left++
		}
	}
	client, err := kgo.NewClient(append(options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets}))...)
	if err != nil {
		return nil, fmt.Errorf("reader: %w", err)
	}
	defer client.Close()
	var reads []Read
	for left > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return reads, fmt.Errorf("read %s: %w", topic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < ends[r.Partition] {
				reads = append(reads, Read{Partition: r.Partition, Offset: r.Offset, Value: string(r.Value)})
				if r.Offset == ends[r.Partition]-1 {
					left--
				}
			}
		})
	}
	return reads, nil
}
