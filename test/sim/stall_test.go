package sim

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/ledger"
)

// duration is a test's length: what the variable says, or the fallback.
func duration(t *testing.T, variable string, fallback time.Duration) time.Duration {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return fallback
	}
	d, err := time.ParseDuration(text)
	require.NoError(t, err, variable)
	return d
}

// TestStall_BucketStandsStill for FRESHET_SIM_STALL (8 s): with producers pushing as hard as they can, everything that
// needs no store is answered, write buffers keep to their bound, and afterwards all goes on.
func TestStall_BucketStandsStill(t *testing.T) {
	t.Parallel()
	c := newCluster(t, options{seed: 12, memory: 128 << 20})
	c.createTopic("cached", 1)
	c.createTopic("flood", 8)
	sent := batch(nobody, 0, "cached")
	w := c.dialWire(c.agents[0])
	require.Zero(t, produced(t, ask[*kmsg.ProduceResponse](w, produceRequest("cached", map[int32][]byte{0: sent}), patience), 0).ErrorCode)
	l := c.startLoad("t", 3, 2, 20*time.Millisecond)
	l.more(100)
	var wires []*wire
	for _, a := range c.agents {
		wires = append(wires, c.dialWire(a))
	}
	slowest := time.Duration(0)
	asks := func() { // the store stands still until all are answered: what waited for it would not be
		for i, w := range wires {
			began := time.Now()
			require.Zero(t, ask[*kmsg.ApiVersionsResponse](w, kmsg.NewPtrApiVersionsRequest(), patience).ErrorCode)
			metadata := kmsg.NewPtrMetadataRequest()
			metadata.Version = 9
			require.NotEmpty(t, ask[*kmsg.MetadataResponse](w, metadata, patience).Brokers)
			p := fetched(t, w.fetch("cached", map[int32]int64{0: 0}), 0)
			require.Equal(t, []stored{{0, string(sent[16:])}}, batches(t, p.RecordBatches), "agent %d", i)
			configs := kmsg.NewPtrDescribeConfigsRequest()
			configs.Version = 1
			configs.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t"}}
			require.Zero(t, ask[*kmsg.DescribeConfigsResponse](w, configs, patience).Resources[0].ErrorCode)
			slowest = max(slowest, time.Since(began))
		}
	}
	asks()

	stalled := c.objects.MustAdd("any stall")
	flood := c.flood("flood")
	acked, rounds := 0, 0
	most, reached := 0.0, float64(16<<20)
	length := duration(t, "FRESHET_SIM_STALL", 8*time.Second)
	settled := time.Now().Add(length / 2) // for what the store had just answered
	began := time.Now()
	for ; time.Since(began) < length || most <= reached && time.Since(began) < length+patience; rounds++ { // a busy machine floods slowly
		asks()
		for _, a := range c.agents {
			held := a.metric("freshet_write_buffer_held_bytes")
			most = max(most, held)
			require.LessOrEqual(t, held, a.metric("freshet_write_buffer_limit_bytes"))
		}
		if acked == 0 || time.Now().Before(settled) {
			acked = l.Ledger.Acked()
		}
	}
	require.Equal(t, acked, l.Ledger.Acked(), "nothing is acknowledged that is not stored")
	require.Positive(t, stalled.Hits())
	c.objects.Remove(stalled)
	l.more(200)
	l.stop(ledger.Rules{})
	for _, f := range flood {
		require.NoError(t, f.Flush(t.Context()))
	}
	require.Greater(t, most, reached, "the load reached for the bound")
	t.Logf("%d rounds of requests answered, the slowest in %v, at most %.1f MiB of write buffers held", rounds, slowest.Round(time.Millisecond), most/(1<<20))
}

// flood pushes 100 MiB, uncompressed, towards the agents, more than twice their write buffers, by as many requests as brokers take.
func (c *cluster) flood(topic string) (clients []*kgo.Client) {
	c.t.Helper()
	value := make([]byte, 64<<10)
	for range 4 {
		client, err := kgo.NewClient(c.clientOptions(append(plain, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchMaxBytes(1<<20),
			kgo.MaxBufferedRecords(500), kgo.ProducerBatchCompression(kgo.NoCompression()))...)...)
		require.NoError(c.t, err)
		c.t.Cleanup(client.Close)
		for range 400 {
			client.TryProduce(c.t.Context(), &kgo.Record{Value: value}, nil)
		}
		clients = append(clients, client)
	}
	return clients
}
