package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
