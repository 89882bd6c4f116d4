package e2e

import (
	"context"
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
	harness.CLI(t, c.Agents[0].Bootstrap, nil, "topic", "create", "t", "--partitions", "1")
	writer, reader := zoneWriter(t, c)
	metric := func(name string, labels ...string) float64 {
		t.Helper()
		n, err := harness.Metric(reader.HTTP, name, labels...)
		require.NoError(t, err)
		return n
	}
	in := pinned(t, reader.Bootstrap) // whose batches the writer writes
	defer in.Close()
	write := func(value string) {
		t.Helper()
		require.NoError(t, in.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte(value)}).FirstErr())
	}
	read := func(records int) (values []string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		out := pinned(t, reader.Bootstrap, kgo.ConsumeTopics("t"))
		defer out.Close()
		for len(values) < records {
			fetches := out.PollFetches(ctx)
			require.NoError(t, fetches.Err())
			fetches.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
		}
		return values
	}
	write("first")
	require.Zero(t, metric("freshet_objstore_requests_total", `operation="put"`), "the agent hands its batches over")
	gets := metric("freshet_objstore_requests_total", `operation="get"`) // of its start
	require.Equal(t, []string{"first"}, read(1))
	require.Positive(t, metric("freshet_peer_requests_total", `result="ok"`))
	require.Equal(t, gets, metric("freshet_objstore_requests_total", `operation="get"`))

	write("second")
	writer.Stop()
	defer writer.Cont()
	require.Equal(t, []string{"first", "second"}, read(2))
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
	}, 30*time.Second, 20*time.Millisecond)
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
