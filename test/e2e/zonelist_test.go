package e2e

import (
	"encoding/json"
	"os/exec"
	"testing"

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
		require.NoError(t, json.Unmarshal(list("--json"), &zones))
		return len(zones) == 1 && zones[0].Zone == "here" && zones[0].Agents == 1 && zones[0].Desired >= 1 &&
			len(zones[0].Loads) == 1 && zones[0].Loads[0].CPU > 0
	})
	require.Contains(t, string(list("--agents")), "session ")
}
