package tenants

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

// pause is the pause of a quiet producer between two records.
const pause = 20 * time.Millisecond

// quiet is a tenant with one agent, one producer and one consumer. No record may fail, be lost, or come twice.
type quiet struct {
	*tenant
	t         *testing.T
	agent     *harness.Agent
	stop      context.CancelFunc // of the producer
	producing sync.WaitGroup

	mu struct {
		sync.Mutex
		times []time.Duration // from produce to acknowledgement, since the last mark
		acked int
		read  int
		fault error // the first one
	}
}

func (p *plane) startQuiet(t *testing.T, name string) *quiet {
	t.Helper()
	v, err := p.create(t.Context(), name)
	require.NoError(t, err)
	return v.startQuiet(t)
}

func (v *tenant) startQuiet(t *testing.T) *quiet {
	t.Helper()
	q := &quiet{tenant: v, t: t, agent: v.launch(t)}
	produce, stop := context.WithCancel(context.Background())
	consume, leave := context.WithCancel(context.Background())
	q.stop = stop
	var consuming sync.WaitGroup
	t.Cleanup(func() {
		stop()
		leave()
		q.producing.Wait()
		consuming.Wait()
	})
	producer, err := kgo.NewClient(kgo.SeedBrokers(q.agent.Bootstrap), kgo.DefaultProduceTopic("records"), kgo.AllowAutoTopicCreation())
	require.NoError(t, err)
	require.NoError(t, producer.ProduceSync(t.Context(), kgo.StringRecord(text(0))).FirstErr())
	q.mu.acked = 1
	consumer, err := kgo.NewClient(kgo.SeedBrokers(q.agent.Bootstrap), kgo.ConsumeTopics("records"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	require.NoError(t, err)
	q.producing.Go(func() { q.produce(produce, producer) })
	consuming.Go(func() { q.consume(consume, consumer) })
	return q
}

func text(n int) string { return fmt.Sprintf("record %d", n) }

func (q *quiet) produce(ctx context.Context, client *kgo.Client) {
	defer client.Close()
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		began := time.Now()
		err := client.ProduceSync(context.WithoutCancel(ctx), kgo.StringRecord(text(n))).FirstErr()
		q.note(func() {
			q.mu.times, q.mu.acked = append(q.mu.times, time.Since(began)), n+1
		}, err)
	}
}

func (q *quiet) consume(ctx context.Context, client *kgo.Client) {
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return
		}
		q.note(func() {}, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			var err error
			if want := text(q.mu.read); string(r.Value) != want {
				err = fmt.Errorf("%q was read, want %q", r.Value, want)
			}
			q.note(func() { q.mu.read++ }, err)
		})
	}
}

// note makes a change under the lock, and keeps the first error.
func (q *quiet) note(change func(), err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
	if q.mu.fault == nil {
		q.mu.fault = err
	}
}

// mark prints the latencies since the last mark.
func (q *quiet) mark(when string) {
	q.t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	require.NoError(q.t, q.mu.fault, q.name)
	p50, _ := quantile(q.mu.times, 0.5)
	p99, most := quantile(q.mu.times, 0.99)
	q.t.Logf("%s %s: %d records, p50 %s, p99 %s, slowest %s", q.name, when, len(q.mu.times), p50.Round(time.Millisecond), p99.Round(time.Millisecond), most.Round(time.Millisecond))
	q.mu.times = nil
}

// end stops the producer, and requires that the consumer has read each record once and in order.
func (q *quiet) end() {
	q.t.Helper()
	q.stop()
	q.producing.Wait()
	harness.Await(q.t, q.name+" has read all records", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		require.NoError(q.t, q.mu.fault, q.name)
		return q.mu.read >= q.mu.acked
	})
	require.True(q.t, q.agent.Running(), "the agent of %s", q.name)
}
