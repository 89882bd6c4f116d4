package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	require.Eventually(t, func() bool { return strings.Contains(c.Agents[0].Output(), "unknown agent key") }, time.Minute, 50*time.Millisecond)
	require.NotEqual(t, http.StatusOK, status(t, c.Agents[0].HTTP+"/readyz"))
}

// TestCluster_AgentStartsWithoutControlPlane: it starts, says that it is not ready, and heals by itself.
func TestCluster_AgentStartsWithoutControlPlane(t *testing.T) {
	t.Parallel()
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	agent, control := c.Agents[0], c.ControlPlanes[0]
	agent.Launch()
	require.Eventually(t, func() bool { return status(t, agent.HTTP+"/livez") == http.StatusOK }, time.Minute, 20*time.Millisecond)
	require.Equal(t, http.StatusServiceUnavailable, status(t, agent.HTTP+"/readyz"))
	control.Launch()
	control.AwaitReady()
	agent.AwaitReady()
	harness.CLI(t, agent.Bootstrap, nil, "topic", "create", "t")
	harness.CLI(t, agent.Bootstrap, strings.NewReader("healed\n"), "produce", "t")
	require.Equal(t, "healed\n", harness.CLI(t, agent.Bootstrap, nil, "consume", "t", "--from", "earliest", "-e"))
}

// status is the HTTP status of an address, 0 if nothing answers.
func status(t *testing.T, address string) int {
	t.Helper()
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(address)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
