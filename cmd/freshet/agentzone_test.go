package main

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/program"
)

func TestAgentSettings_FindZone(t *testing.T) {
	task := `{"AvailabilityZone":"eu-1a"}`
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(task)) }))
	defer s.Close()
	t.Setenv("ECS_CONTAINER_METADATA_URI_V4", s.URL)
	find := func(zone, otherwise string) (string, error) {
		a := agentSettings{defaultZone: otherwise}
		a.Zone, a.Log = zone, zap.NewNop()
		err := a.findZone(t.Context())
		return a.Zone, err
	}
	for _, tt := range []struct{ zone, otherwise, task, want string }{
		{"", "d", task, ""},
		{"given", "d", task, "given"},
		{"auto", "d", task, "eu-1a"},
		{"auto", "d", "{}", "d"},
	} {
		task = tt.task
		got, err := find(tt.zone, tt.otherwise)
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
	}
	_, err := find("auto", "")
	require.ErrorContains(t, err, "the platform names no availability zone: set --default-zone for such machines, or name the zone by --zone")
	task = "no JSON"
	_, err = find("auto", "d")
	require.ErrorContains(t, err, "; or name the zone by --zone", "the default is for machines that have no zone alone")
}

// TestRun_NodeName: the node's name is a setting like the others, in the environment too.
func TestRun_NodeName(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("ECS_CONTAINER_METADATA_URI_V4", "")
	code, _, errs := command(t, []string{"FRESHET_NODE_NAME=n1", "FRESHET_ZONE=auto"}, "agent")
	require.Equal(t, program.ExitFailed, code)
	require.Equal(t, "freshet: --zone auto: the availability zone could not be found out: --node-name n1 is set, but KUBERNETES_SERVICE_HOST is not: "+
		"remove it outside of a pod; or name the zone by --zone (from FRESHET_ZONE, FRESHET_NODE_NAME)\n", errs)
}
