package ecs

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestStateBucket: with a bucket for control planes, their task and role name this bucket alone. Agents keep theirs.
func TestStateBucket(t *testing.T) {
	root := parse(t, source(t))
	text := func(s *stack, resource string) string {
		b, err := json.Marshal(s.resources()[resource])
		require.NoError(t, err)
		return string(b)
	}
	one := with(t, root, map[string]string{"Bucket": "records"})
	for name, s := range map[string]*stack{
		"a given bucket":    with(t, root, map[string]string{"Bucket": "records", "StateBucket": "state"}),
		"the stack's own":   with(t, root, map[string]string{"StateBucket": "state"}),
		"on EC2, all zones": onEC2(t, root, full, map[string]string{"Bucket": "records", "StateBucket": "state"}),
	} {
		require.Empty(t, s.refused(), name)
		settings := attributes(object{"Of": get(s.resources()["ControlPlaneTask"], "Properties", "ContainerDefinitions", 0, "Environment")}, "Of")
		require.Equal(t, "s3://state/freshet?region=eu-1", settings["FRESHET_STATE_BUCKET"], name)
		require.NotContains(t, settings, "FRESHET_BUCKET", name)
		role := text(s, "ControlPlaneRole")
		require.Contains(t, role, `"arn:aws:s3:::state/freshet/*"`, name)
		require.Contains(t, role, `"arn:aws:s3:::state"`, name)
		require.Equal(t, 2, strings.Count(role, ":s3:::"), name)
		for _, resource := range []string{"AgentRole", "TaskA"} {
			require.NotContains(t, text(s, resource), "state", name)
		}
	}
	require.NotContains(t, text(one, "ControlPlaneTask"), "FRESHET_STATE_BUCKET")
	require.Contains(t, text(one, "ControlPlaneRole"), `"arn:aws:s3:::records/freshet/*"`)
	for bucket, want := range map[string]string{"records": "StateBucket and Bucket must be two buckets", "s3://state": "StateBucket does not match"} {
		require.Equal(t, []string{want}, with(t, root, map[string]string{"Bucket": "records", "StateBucket": bucket}).refused())
	}
}
