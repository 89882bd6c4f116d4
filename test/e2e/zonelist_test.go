package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// TestDev_ZoneList: the agent's load arrives at the owner, which has a figure for its zone.
func TestDev_ZoneList(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--zone", "here")
	list := func(args ...string) []byte {
		out, err := exec.CommandContext(t.Context(), harness.Freshet(t), append([]string{"zone", "list", "--data-dir", d.DataDir}, args...)...).Output()
		require.NoError(t, err)
		return out
	}
	type zone struct {
		Zone    string
		Desired int `json:"desired_replicas"`
		Agents  int
		Loads   []struct{ CPU float64 }
	}
	harness.Await(t, "a figure for the zone", func() bool {
		var zones []zone
		require.NoError(t, json.Unmarshal(list("-o", "json"), &zones))
		return len(zones) == 1 && zones[0].Zone == "here" && zones[0].Agents == 1 && zones[0].Desired >= 1 &&
			len(zones[0].Loads) == 1 && zones[0].Loads[0].CPU > 0
	})
	require.Contains(t, string(list("--agents")), "session ")
}

// TestCluster_EveryReplicaAnswersOperators: whichever replica is asked, and stays after the owner has ended, has the figures.
// Replicas show each other certificates. The agent has no --virtual-cluster: its key names one.
func TestCluster_EveryReplicaAnswersOperators(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 2, TLS: true, MutualTLS: true, AgentFlags: []string{"--zone", "here", "--peer-listen", "none", "--virtual-cluster", ""}})
	list := func(p *harness.ControlPlane) string {
		cmd := exec.CommandContext(t.Context(), harness.Freshet(t), "zone", "list", "-o", "json", "--control-plane-http", p.HTTP, "--virtual-cluster", "main")
		cmd.Env = append(cmd.Environ(), "FRESHET_OPERATOR_KEY="+c.OperatorKey)
		out, err := cmd.CombinedOutput()
		return fmt.Sprint(string(out), err)
	}
	for _, p := range c.ControlPlanes {
		harness.Await(t, "a figure from "+p.HTTP, func() bool { return strings.Contains(list(p), `"zone": "here"`) })
	}
	_, err := c.ControlPlanes[0].Terminate(time.Minute)
	require.NoError(t, err)
	harness.Await(t, "a figure from the replica that is left", func() bool { return strings.Contains(list(c.ControlPlanes[1]), `"zone": "here"`) })
}
