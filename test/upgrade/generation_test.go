package upgrade

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/test/harness"
)

// formerFile holds the hash of a commit of the generation before this tree's.
const formerFile = "testdata/former"

// TestGeneration_NeverTwoOwners starts a control plane of the former generation beside one of this tree, on one etcd prefix. One of them owns
// the virtual cluster at a time, and the other one ends: its log names the generations.
func TestGeneration_NeverTwoOwners(t *testing.T) {
	name, err := os.ReadFile(formerFile)
	require.NoError(t, err)
	former := harness.FindCommit(t, strings.TrimSpace(string(name)))
	require.EqualValues(t, generation.Number, generationFile.of(t, former)+1, "write the hash of a commit of the generation before to test/upgrade/%s", formerFile)
	binary := former.Build(t)
	for _, order := range []string{"the older first", "the newer first", "at once"} {
		t.Run(order, func(t *testing.T) {
			c := harness.NewCluster(t, harness.ClusterConfig{ControlPlanes: 2, Binary: binary, Earlier: binary, ControlFlags: []string{"--state-version", "1"}})
			older, newer := c.ControlPlanes[0], c.ControlPlanes[1]
			newer.UseBinary(t, harness.Freshet(t))
			switch order {
			case "the older first":
				older.Restart()
				newer.Launch()
			case "the newer first":
				newer.Restart()
				older.Launch()
			default:
				older.Launch()
				newer.Launch()
			}
			const told = "stored by a program of another generation"
			harness.Await(t, "one of them ends and the other one is the owner", func() bool {
				require.False(t, older.Owns() && newer.Owns() && older.Owns(), "two owners")
				return strings.Contains(older.Output()+newer.Output(), told) && (older.Owns() || newer.Owns())
			})
			require.NotEqual(t, strings.Contains(older.Output(), told), strings.Contains(newer.Output(), told), "one of them goes on")
		})
	}
}
