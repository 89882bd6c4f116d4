package omb

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
)

// cluster gives the address of a fake cluster, and a driver for it.
func cluster(t *testing.T) (string, Driver) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return strings.Join(c.ListenAddrs(), ","), Driver{
		Name: "Kafka", ReplicationFactor: 1, TopicConfig: "min.insync.replicas=1\n",
		CommonConfig:   "bootstrap.servers=127.0.0.1:1\n", // replaced by the flag
		ProducerConfig: "acks=all\nlinger.ms=1\n",
		ConsumerConfig: "auto.offset.reset=earliest\nenable.auto.commit=false\nfetch.max.wait.ms=50\nheartbeat.interval.ms=100\n",
	}
}

// small is a workload of two seconds, or one that goes on for longer.
func small(length time.Duration) Workload {
	w := NewWorkload()
	w.Name, w.Topics, w.PartitionsPerTopic, w.MessageSize = "small", 2, 3, 100
	w.UseRandomizedPayloads, w.RandomBytesRatio, w.RandomizedPayloadPoolSize = true, 0.5, 10
	w.SubscriptionsPerTopic, w.ConsumerPerSubscription, w.ProducersPerTopic = 2, 2, 2
	w.ProducerRate, w.TestDurationMinutes, w.WarmupDurationMinutes, w.LogIntervalMillis = 500, length.Minutes(), 0.5/60, 250
	return w
}

// A short run against a fake cluster: what was sent is what was received, by both subscriptions, and the result file
// says what happened.
func TestRun_EverythingSentIsReceived(t *testing.T) {
	var outcome *Outcome
	// A busy machine makes up for moments when it stood still: the longer the run, the less that is of its rate.
	for _, length := range []time.Duration{time.Second, 5 * time.Second, 20 * time.Second} {
		bootstrap, driver := cluster(t)
		var out strings.Builder
		var err error
		outcome, err = Run(t.Context(), Config{Driver: driver, Workload: small(length), Bootstrap: bootstrap, Out: &out})
		require.NoError(t, err, out.String())
		t.Log(out.String())
		if rate := mean(outcome.Result.PublishRate); math.Abs(rate-500) < 125 {
			break
		}
	}
	totals := outcome.Totals
	require.Equal(t, 2*totals.Sent, totals.Received)
	require.Zero(t, totals.Failed)
	require.Equal(t, 2*(totals.BytesSent+4*10), totals.BytesReceived, "4 probes of 10 bytes are not counted as bytes sent")
	require.EqualValues(t, 8, totals.Joined)
	r := outcome.Result
	require.NotEmpty(t, r.PublishRate)
	require.InDelta(t, 500, mean(r.PublishRate), 125)
	require.InDelta(t, 1000, mean(r.ConsumeRate), 250)
	require.Equal(t, "small", r.Workload)
	require.Equal(t, "Kafka", r.Driver)
	require.Positive(t, r.AggregatedPublishLatencyAvg)
	require.GreaterOrEqual(t, r.AggregatedPublishLatency99pct, r.AggregatedPublishLatency50pct)
	require.InDelta(t, 100, r.AggregatedPublishLatencyQuantiles[len(r.AggregatedPublishLatencyQuantiles)-1].Percentile, 0)
}
