package timing

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

// TestCluster_StoppingAnAgentLosesNothing: SIGTERM under load: the agent ends, and the producer, not even
// an idempotent one, sees an error.
func TestCluster_StoppingAnAgentLosesNothing(t *testing.T) {
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 2, ControlPlanes: 1})
	harness.CLI(t, c.Bootstrap(), nil, "topic", "create", "t", "--partitions", "4")
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(c.Bootstrap(), ",")...), kgo.DefaultProduceTopic("t"), kgo.DisableIdempotentWrite())
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	sent, failed := make(chan int), make(chan error, 1)
	go func() {
		n := 0
		defer func() { sent <- n }()
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			n++
			client.Produce(context.WithoutCancel(ctx), kgo.StringRecord("x"), func(_ *kgo.Record, err error) {
				if err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
			<-tick.C
		}
	}()
	require.Eventually(t, func() bool { return client.BufferedProduceRecords() > 0 }, time.Minute, time.Millisecond)
	for _, a := range c.Agents {
		took, err := a.Terminate(time.Minute)
		require.NoError(t, err)
		harness.Within(t, "SIGTERM to the end", took, 10*time.Second)
		a.Launch()
		a.AwaitReady()
	}
	cancel()
	n := <-sent
	require.NoError(t, client.Flush(t.Context()))
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	got := strings.Count(harness.CLI(t, c.Bootstrap(), nil, "consume", "t", "--from", "earliest", "-e"), "\n")
	require.GreaterOrEqual(t, got, n, "every acknowledged record is there")
	require.Greater(t, n, 100)
}
