package group_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/group"
)

// TestMetrics_GroupsOfAll: the groups of virtual clusters with one registry count together, from their first generation on and with each owner.
func TestMetrics_GroupsOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one, two := newWorld(t, group.Settings{}), newWorld(t, group.Settings{})
		two.registry = one.registry
		two.changeOwner()
		defer func() { one.end(); two.end() }()
		shown := func(want string) {
			t.Helper()
			synctest.Wait()
			require.NoError(t, testutil.GatherAndCompare(one.registry, strings.NewReader(want), "freshet_group_groups"))
		}
		shown("")
		one.join("g")
		two.join("g")
		two.join("h")
		stable := `
# HELP freshet_group_groups Groups loaded on the owner, those of offsets only excepted.
# TYPE freshet_group_groups gauge
freshet_group_groups{kind="classic",state="Stable"} 3
`
		shown(stable)
		one.changeOwner()
		shown(stable)
	})
}
