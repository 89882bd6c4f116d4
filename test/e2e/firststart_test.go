package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/test/harness"
)

// A first start logs no warning, though the control planes come after the agents.
func TestFirstStart_LogsNoWarning(t *testing.T) {
	t.Parallel()
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 2})
	for _, a := range c.Agents {
		a.Launch()
		harness.Await(t, a.Name+" waits for a control plane", func() bool { return a.Running() && len(a.Output()) > 0 })
	}
	for _, p := range c.ControlPlanes {
		p.Launch()
	}
	for _, p := range c.ControlPlanes {
		p.AwaitReady()
		require.Empty(t, harness.Alarms(p.Output()))
	}
	for _, a := range c.Agents {
		a.AwaitReady()
		require.Empty(t, harness.Alarms(a.Output()))
		harness.Await(t, a.Name+" names the address of clients", func() bool {
			return strings.Contains(a.Output(), " INFO  ready, Kafka clients at "+a.Bootstrap+"  put_budget=")
		})
	}
}

// `freshet dev` logs no warning at its first start.
func TestFirstStart_LogsNoWarningInDev(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--log-level", "info")
	require.Empty(t, harness.Alarms(d.Output()))
	harness.Await(t, "the greeting names the HTTP address and the directory", func() bool {
		return strings.Contains(d.Output(), "\nhttp:    "+d.HTTP+"/readyz and /metrics\ndata:    "+d.DataDir+"\n")
	})
}

// A Kafka client that connects to an agent without a control plane gets an error that says so, and the agent logs the client.
func TestFirstStart_ClientOfAnAgentThatIsNotReady(t *testing.T) {
	t.Parallel()
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	a := c.Agents[0]
	a.Launch()
	harness.Await(t, "the agent listens", func() bool { return strings.Contains(a.Output(), "waiting for the control plane") })
	client, err := kgo.NewClient(kgo.SeedBrokers(a.Bootstrap), kgo.ClientID("early"))
	require.NoError(t, err)
	defer client.Close()
	_, err = client.SeedBrokers()[0].Request(t.Context(), kmsg.NewPtrMetadataRequest())
	require.ErrorIs(t, err, kerr.CoordinatorNotAvailable)
	require.Regexp(t, `WARN  client connects to an agent that is not ready: .*nothing heard from the control plane yet.* client_id=early`, a.Output())

	c.ControlPlanes[0].Launch()
	harness.Await(t, "the client is served", func() bool { return client.Ping(t.Context()) == nil })
}
