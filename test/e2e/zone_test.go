package e2e

import (
	"context"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// TestZone_Shares: an agent serves what another one of its zone wrote from that one's memory, over TLS; and when that one
// hangs, which nobody is told, from the object store.
func TestZone_Shares(t *testing.T) {
	t.Parallel()
	files := testservers.NewTLSFiles(t)
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 2, ControlPlanes: 1, AgentFlags: []string{
		"--peer-tls-cert", files.Cert, "--peer-tls-key", files.Key, "--peer-tls-ca", files.CA,
	}})
	writer, reader := zoneWriter(t, c)
	metric := func(name string, labels ...string) float64 {
		t.Helper()
		n, err := harness.Metric(reader.HTTP, name, labels...)
		require.NoError(t, err)
		return n
	}
	in := pinned(t, reader.Bootstrap) // whose batches the writer writes
	defer in.Close()
	write := func(topic, value string) {
		t.Helper()
		require.NoError(t, in.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Value: []byte(value)}).FirstErr())
	}
	read := func(topic string, records int) (values []string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		out := pinned(t, reader.Bootstrap, kgo.ConsumeTopics(topic))
		defer out.Close()
		for len(values) < records {
			fetches := out.PollFetches(ctx)
			require.NoError(t, fetches.Err())
			fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
		}
		return values
	}
	// Agents do not wait for each other for seconds, as one may have to on a busy machine: then it writes and gets by itself.
	topic, shared := "", false
	for attempt := 0; attempt < 10 && !shared; attempt++ {
		topic = fmt.Sprint("t-", attempt)
		harness.CLI(t, reader.Bootstrap, nil, "topic", "create", topic, "--partitions", "1")
		requests, answers := metric("freshet_objstore_requests_total"), metric("freshet_peer_requests_total", `result="ok"`)
		write(topic, "first")
		require.Equal(t, []string{"first"}, read(topic, 1))
		shared = metric("freshet_objstore_requests_total") == requests && metric("freshet_peer_requests_total", `result="ok"`) > answers
	}
	require.True(t, shared, "the agent hands its batches over, and is handed what it reads")

	gets := metric("freshet_objstore_requests_total", `operation="get"`)
	write(topic, "second")
	writer.Stop()
	defer writer.Cont()
	require.Equal(t, []string{"first", "second"}, read(topic, 2))
	require.Positive(t, metric("freshet_peer_fallbacks_total")+metric("freshet_peer_left_out"))
	require.Greater(t, metric("freshet_objstore_requests_total", `operation="get"`), gets)
}

// zoneWriter waits until one of two agents writes for both, and gives that one and the other.
func zoneWriter(t *testing.T, c *harness.Cluster) (writer, other *harness.Agent) {
	t.Helper()
	require.Eventually(t, func() bool {
		for i, a := range c.Agents {
			if n, err := harness.Metric(a.HTTP, "freshet_zonewriter_streams"); err == nil && n > 0 {
				writer, other = a, c.Agents[1-i]
			}
		}
		return writer != nil
	}, 2*time.Minute, 20*time.Millisecond)
	return writer, other
}

// pinned is a client whose every connection goes to one agent.
func pinned(t *testing.T, to string, more ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append(more, kgo.SeedBrokers(to),
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, to)
		}))...)
	require.NoError(t, err)
	return client
}
