package e2e

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// TestCluster_TLSEverywhere: TLS to etcd with client certificates, between agents and control plane, and for clients.
func TestCluster_TLSEverywhere(t *testing.T) {
	t.Parallel()
	files := testservers.NewTLSFiles(t)
	c := harness.StartCluster(t, harness.ClusterConfig{
		Agents: 2, ControlPlanes: 2, TLS: true,
		AgentFlags: []string{
			"--advertise", "127.0.0.1", "--kafka-tls-cert", files.Cert, "--kafka-tls-key", files.Key, "--kafka-tls-client-ca", files.CA,
		},
	})
	flags := []string{"--tls-ca", files.CA, "--tls-cert", files.Cert, "--tls-key", files.Key}
	cli := func(in string, args ...string) string {
		t.Helper()
		return harness.CLI(t, c.Bootstrap(), strings.NewReader(in), append(args, flags...)...)
	}
	cli("", "topic", "create", "t", "--partitions", "1")
	cli(numbers(1, 100), "produce", "t")
	require.Equal(t, numbers(1, 100), cli("", "consume", "t", "--from", "earliest", "-e"))

	r := harness.TryCLI(t, c.Bootstrap(), nil, "topic", "list", "--timeout", "3s")
	require.Equal(t, 1, r.Code, "no TLS, no service")
	r = harness.TryCLI(t, c.Bootstrap(), nil, "topic", "list", "--timeout", "3s", "--tls-ca", files.CA)
	require.Equal(t, 1, r.Code, "no client certificate, no service")
}

// TestCluster_AgentNeedsItsKey: an agent with another key is kept out.
func TestCluster_AgentNeedsItsKey(t *testing.T) {
	t.Parallel()
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1, AgentFlags: []string{"--agent-key", "not the key"}})
	c.ControlPlanes[0].Launch()
	c.ControlPlanes[0].AwaitReady()
	c.Agents[0].Launch()
	require.Eventually(t, func() bool { return strings.Contains(c.Agents[0].Output(), "Unauthenticated") }, 20*time.Second, 50*time.Millisecond)
	require.NotEqual(t, http.StatusOK, status(t, c.Agents[0].HTTP+"/readyz"))
}

// TestCluster_AgentStartsWithoutControlPlane: it starts, says that it is not ready, and heals by itself.
func TestCluster_AgentStartsWithoutControlPlane(t *testing.T) {
	t.Parallel()
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	agent, control := c.Agents[0], c.ControlPlanes[0]
	agent.Launch()
	require.Eventually(t, func() bool { return status(t, agent.HTTP+"/livez") == http.StatusOK }, 20*time.Second, 20*time.Millisecond)
	require.Equal(t, http.StatusServiceUnavailable, status(t, agent.HTTP+"/readyz"))
	control.Launch()
	control.AwaitReady()
	agent.AwaitReady()
	harness.CLI(t, agent.Bootstrap, nil, "topic", "create", "t")
	harness.CLI(t, agent.Bootstrap, strings.NewReader("healed\n"), "produce", "t")
	require.Equal(t, "healed\n", harness.CLI(t, agent.Bootstrap, nil, "consume", "t", "--from", "earliest", "-e"))
}

// TestCluster_StoppingAnAgentLosesNothing: SIGTERM under load: the agent ends within 5 s, and the producer, not even
// an idempotent one, sees an error.
func TestCluster_StoppingAnAgentLosesNothing(t *testing.T) { // not parallel: it measures time
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
	require.Eventually(t, func() bool { return client.BufferedProduceRecords() > 0 }, 10*time.Second, time.Millisecond)
	for _, a := range c.Agents {
		took, err := a.Terminate(10 * time.Second)
		require.NoError(t, err)
		require.Less(t, took, 5500*time.Millisecond)
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

// status is the HTTP status of an address, 0 if nothing answers.
func status(t *testing.T, address string) int {
	t.Helper()
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(address)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
