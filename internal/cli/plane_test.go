package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/operator"
)

// planeSays serves a list of virtual clusters, and a status of the control plane.
func planeSays(t *testing.T, list []operator.Listed, status string) OperatorConfig {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/v1/clusters":
			_ = json.NewEncoder(w).Encode(map[string]any{"clusters": list})
		case "/v1/status":
			_, _ = w.Write([]byte(status))
		default:
			w.WriteHeader(http.StatusConflict)
			_, _ = w.Write([]byte(`{"error":"virtual cluster paused is suspended: resume it","state":"suspended"}`))
		}
	}))
	t.Cleanup(server.Close)
	return OperatorConfig{ControlPlane: []string{server.URL}, Key: "k"}
}

func TestShowStatus_Plane(t *testing.T) {
	owner := &operator.Owner{Replica: "cp-1", Address: "10.0.0.2:7050"}
	list := []operator.Listed{
		{ClusterID: "id0", Fault: "etcd key x: a newer program"},
		{VirtualCluster: "a", State: "active", Fault: "virtual cluster a: no snapshot"},
		{VirtualCluster: "b", State: "suspended"},
		{VirtualCluster: "main", State: "active", Owner: owner},
		{VirtualCluster: "rest", State: "active", Owner: owner},
	}
	status := strings.Replace(healthyStatus, `"findings":[]`, `"findings":[{"kind":"etcd","subject":"e","text":"etcd at e is full"}]`, 1)
	c := planeSays(t, list, status)
	var out bytes.Buffer
	require.EqualError(t, ShowStatus(t.Context(), c, Streams{Out: &out}), "3 findings")
	require.Equal(t, `Virtual clusters: 5 (3 active, 1 suspended, 1 invalid), 2 with faults

Control plane, as replica cp-0 knows it
  REPLICA  ADDRESS        VERSION  UPTIME  OWNS
  cp-0     10.0.0.1:7050  v1.2.0   3 h     0
  cp-1     10.0.0.2:7050  -        -       2

Etcd
  MEMBER         LATENCY  USED      ALLOWED  STATE
  10.0.0.1:2379  1.2 ms   1.5 MiB   2.0 GiB  leader
  10.0.0.2:2379  10.0 ms  20.0 KiB  -        follower

Object store
  BUCKET        STATE
  s3://records  works

Findings
  etcd at e is full
  etcd key x: a newer program
  virtual cluster a: no snapshot
`, out.String())
	out.Reset()
	require.EqualError(t, ShowStatus(t.Context(), c, Streams{Out: &out, Format: FormatJSON}), "3 findings")
	var shown map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &shown))
	require.Equal(t, map[string]any{"active": 3.0, "suspended": 1.0, "invalid": 1.0}, shown["virtual_clusters"])
	require.Len(t, shown["etcd"], 2)
	require.NotContains(t, shown, "agents")
}

// TestShowStatus_PlaneBounds: replicas and etcd are shown without an active virtual cluster. Of many faults, some are named.
func TestShowStatus_PlaneBounds(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, ShowStatus(t.Context(), planeSays(t, nil, healthyStatus), Streams{Out: &out}))
	require.Contains(t, out.String(), "Virtual clusters: 0\n\nControl plane, as replica cp-0 knows it\n")
	require.Contains(t, out.String(), "10.0.0.1:2379")
	var list []operator.Listed
	for i := range maxFaulty + 3 {
		list = append(list, operator.Listed{VirtualCluster: fmt.Sprint(i), State: "suspended", Fault: fmt.Sprintf("fault %d", i)})
	}
	out.Reset()
	require.EqualError(t, ShowStatus(t.Context(), planeSays(t, list, healthyStatus), Streams{Out: &out}), fmt.Sprintf("%d findings", maxFaulty+1))
	require.Contains(t, out.String(), "  fault 19\n  3 more virtual clusters have faults: see `freshet cluster list`\n")
}

func TestShowStatus_Suspended(t *testing.T) {
	c := planeSays(t, nil, "")
	c.VirtualCluster = "paused"
	var inactive *InactiveError
	for format, want := range map[string]string{FormatText: "Virtual cluster paused: suspended\n", FormatJSON: "{\n  \"virtual_cluster\": \"paused\",\n  \"state\": \"suspended\"\n}\n"} {
		var out bytes.Buffer
		err := ShowStatus(t.Context(), c, Streams{Out: &out, Format: format})
		require.ErrorAs(t, err, &inactive)
		require.EqualError(t, err, "virtual cluster paused is suspended: resume it")
		require.Equal(t, want, out.String())
	}
}
