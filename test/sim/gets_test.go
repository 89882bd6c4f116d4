package sim

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestGets_AtMostOnePerBundle: one consumer reads many small bundles by an agent that has none of them in memory, a
// second one right behind it by the same agent: the store sees at most one GET per bundle, and they overlap.
func TestGets_AtMostOnePerBundle(t *testing.T) {
	t.Parallel()
	const partitions, records = 3, 120
	c := newCluster(t, options{agents: 1, replicas: 1})
	c.createTopic("t", partitions)
	producer := c.pinned(c.agents[0], kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for i := range records { // one at a time, so that each makes a bundle of its own
		r := &kgo.Record{Topic: "t", Partition: int32(i % partitions), Value: fmt.Appendf(nil, "%d", i)}
		require.NoError(t, producer.ProduceSync(t.Context(), r).FirstErr())
	}
	producer.Close()
	bundles := int(c.audit.puts.Load())
	require.Greater(t, bundles, records/2, "many bundles")

	c.objects.MustAdd("get key~bundles delay=30ms")
	cold := c.startAgent()
	c.awaitMembers()
	began := time.Now()
	c.readAll(cold, "t", records)
	took := time.Since(began)
	gets := int(cold.metric("freshet_cache_gets_total"))
	t.Logf("%d bundles, %d GETs, %s", bundles, gets, took)
	require.Positive(t, gets)
	require.LessOrEqual(t, gets, bundles)
	require.Less(t, took, time.Duration(bundles)*30*time.Millisecond, "GETs overlap")

	var both sync.WaitGroup
	fresh := c.startAgent()
	c.awaitMembers()
	for range 2 {
		both.Go(func() { c.readAll(fresh, "t", records) })
	}
	both.Wait()
	require.LessOrEqual(t, int(fresh.metric("freshet_cache_gets_total")), bundles, "two consumers side by side")
}

// readAll consumes so many records of a topic from its beginning through one agent.
func (c *cluster) readAll(a *node, topic string, records int) {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
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
