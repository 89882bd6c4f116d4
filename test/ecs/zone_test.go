package ecs

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// taskVariable names the task metadata endpoint to a container.
const taskVariable = "ECS_CONTAINER_METADATA_URI_V4"

// taskOf is the answer of the endpoint, as Fargate gives it, without the containers.
const taskOf = `{"Cluster":"freshet","TaskARN":"arn:aws:ecs:eu-central-1:1:task/freshet/1","Family":"agent","Revision":"1","DesiredStatus":"RUNNING",
"KnownStatus":"RUNNING","LaunchType":"FARGATE","AvailabilityZone":"eu-central-1b"}`

// endpoint is a stand-in for the task metadata endpoint.
func endpoint(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v4/container/task" {
			http.NotFound(w, r)
			return
		}
		answer(w, r)
	}))
	t.Cleanup(s.CloseClientConnections) // a handler that hangs
	t.Cleanup(s.Close)
	return s.URL + "/v4/container"
}

// says answers with a body.
func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }
}

// fails answers 500 for some time, then with a body.
func fails(d time.Duration, body string) http.HandlerFunc {
	var began atomic.Pointer[time.Time]
	return func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		began.CompareAndSwap(nil, &now)
		if now.Sub(*began.Load()) < d {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		says(body)(w, r)
	}
}

// TestZone_OfATask: an agent with --zone auto joins in the zone of its task. If the endpoint does not tell the zone, the agent ends within
// 10 s, with one line that names --zone.
func TestZone_OfATask(t *testing.T) {
	t.Parallel()
	hang := func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	c.ControlPlanes[0].Launch()
	for _, tc := range []struct {
		name, endpoint string
		zone           string // "" if the agent ends
		cause          string
	}{
		{"answers", endpoint(t, says(taskOf)), "eu-central-1b", ""},
		{"fails at first", endpoint(t, fails(2*time.Second, taskOf)), "eu-central-1b", ""},
		{"fails for 10 s", endpoint(t, fails(10*time.Second, taskOf)), "", "500 Internal Server Error"},
		{"is malformed", endpoint(t, says(`{"AvailabilityZone"`)), "", "unexpected EOF"},
		{"has no zone", endpoint(t, says(`{"Cluster":"freshet"}`)), "", "the platform names no availability zone"},
		{"hangs", endpoint(t, hang), "", "context deadline exceeded"},
		{"is absent", "http://" + testservers.Place{}.FreeAddress(t) + "/v4/container", "", "connection refused"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := c.NewAgentWith(t, "task", "--zone", "auto")
			a.UseBinary(t, inTask(t, tc.endpoint))
			if tc.zone != "" {
				a.Launch()
				a.AwaitReady()
				require.Equal(t, tc.zone, rackOf(t, a))
				return
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			cmd := exec.CommandContext(ctx, inTask(t, tc.endpoint), "agent", "--zone", "auto")
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			require.True(t, errors.As(err, &exit), "%v: %s", err, out)
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			require.Len(t, lines, 1)
			require.Contains(t, lines[0], tc.cause)
			require.Contains(t, lines[0], "--zone")
			t.Logf("ended after %v, aim 10s: %s", time.Since(began).Round(100*time.Millisecond), lines[0])
		})
	}
}

// inTask returns a program that runs freshet with the environment of a task.
func inTask(t *testing.T, endpoint string) string {
	t.Helper()
	script := t.TempDir() + "/task"
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\nexport "+taskVariable+"='"+endpoint+"'\nexec '"+harness.Freshet(t)+"' \"$@\"\n"), 0o700))
	return script
}
