package sim

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/agent"
	"github.com/freshet-io/freshet/objstore"
)

// TestGets_AtMostOnePerBundle: one consumer reads many small bundles by an agent that has none of them in memory, a
// second one right behind it by the same agent: the store sees at most one GET per bundle, and they overlap.
func TestGets_AtMostOnePerBundle(t *testing.T) {
	t.Parallel()
	const partitions, records = 3, 120
	store := &overlap{}
	c := newCluster(t, options{agents: 1, replicas: 1, agent: func(cfg *agent.Config) {
		cfg.Bucket = &overlapped{cfg.Bucket, store}
	}})
	c.createTopic("t", partitions)
	producer := c.pinned(c.agents[0], kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range records { // one at a time, so that each makes a bundle of its own
		r := &kgo.Record{Topic: "t", Partition: int32(i % partitions), Value: fmt.Appendf(nil, "%d", i)}
		require.NoError(t, producer.ProduceSync(t.Context(), r).FirstErr())
	}
	producer.Close()
	bundles := int(c.audit.puts.Load())
	require.Greater(t, bundles, records/2, "many bundles")

	c.objects.MustAdd("get key~bundles delay=50ms")
	cold := c.startAgent()
	c.awaitMembers()
	c.readAll(cold, "t", records)
	gets := int(cold.metric("freshet_cache_gets_total"))
	t.Logf("%d bundles, %d GETs, at most %d at once", bundles, gets, store.most.Load())
	require.Positive(t, gets)
	require.LessOrEqual(t, gets, bundles)
	require.Greater(t, store.most.Load(), int64(1), "GETs overlap")

	var both sync.WaitGroup
	fresh := c.startAgent()
	c.awaitMembers()
	for range 2 {
		both.Go(func() { c.readAll(fresh, "t", records) })
	}
	both.Wait()
	require.LessOrEqual(t, int(fresh.metric("freshet_cache_gets_total")), bundles, "two consumers side by side")
}

// overlap is how many GETs are under way at once.
type overlap struct{ now, most atomic.Int64 }

// overlapped is a bucket whose GETs are counted.
type overlapped struct {
	objstore.Bucket
	count *overlap
}

func (o *overlapped) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	now := o.count.now.Add(1)
	defer o.count.now.Add(-1)
	for most := o.count.most.Load(); now > most && !o.count.most.CompareAndSwap(most, now); most = o.count.most.Load() {
	}
	return o.Bucket.Get(ctx, key, offset, length)
}

// readAll consumes so many records of a topic from its beginning through one agent.
func (c *cluster) readAll(a *node, topic string, records int) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	consumer, err := kgo.NewClient(c.pinnedOptions(a, kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		c.t.Errorf("consumer: %v", err)
		return
	}
	defer consumer.Close()
	for n := 0; n < records; {
		fetches := consumer.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			c.t.Errorf("after %d records: %v", n, err)
			return
		}
		n += fetches.NumRecords()
	}
}
