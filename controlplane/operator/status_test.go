package operator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/session"
)

// A replica that is not the owner answers for itself and does not forward.
func TestHandler_StatusOfAnyReplica(t *testing.T) {
	cfg := beside("127.0.0.1:1", nil)
	cluster, _ := cfg.Cluster("vc")
	cluster.Status = func(context.Context) *operator.Status {
		return &operator.Status{VirtualCluster: "vc", Plane: operator.Plane{Replica: "r1"}}
	}
	cfg.Cluster = served(map[string]operator.Cluster{"vc": cluster})
	code, body := call(t, cfg, http.MethodGet, "/v1/clusters/vc/status")
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `{"virtual_cluster":"vc","owner":null,"replica":"r1",`)
	code, _ = call(t, cfg, http.MethodGet, "/v1/clusters/other/status")
	require.Equal(t, http.StatusUnauthorized, code)
	cfg.Open = func(string, string, bool) bool { return false }
	code, _ = call(t, cfg, http.MethodGet, "/v1/clusters/vc/status")
	require.Equal(t, http.StatusUnauthorized, code)
}

// A call about a suspended or deleted virtual cluster gets 409 with its state, if its key opens the virtual cluster.
func TestHandler_Inactive(t *testing.T) {
	cfg := beside("127.0.0.1:1", nil)
	state, fault := "", errors.New("is starting")
	cfg.Cluster = func(string) (operator.Cluster, error) { return operator.Cluster{}, fault }
	cfg.List = func() []operator.Listed {
		return []operator.Listed{{ClusterID: "id0"}, {VirtualCluster: "other", State: "suspended"}, {VirtualCluster: "vc", State: state}}
	}
	for _, c := range []struct {
		state string
		fault error
		code  int
		body  string
	}{
		{"active", errors.New("is starting"), http.StatusServiceUnavailable, `{"error":"virtual cluster vc: is starting"}`},
		{"suspended", errors.New("is suspended: resume it"), http.StatusConflict, `{"error":"virtual cluster vc is suspended: resume it","state":"suspended"}`},
		{"deleted", fmt.Errorf("is deleted and %w", session.ErrNotServed), http.StatusConflict, `{"error":"virtual cluster vc is deleted and ` + session.ErrNotServed.Error() + `","state":"deleted"}`},
	} {
		state, fault = c.state, c.fault
		for _, path := range []string{"status", "zones"} {
			code, body := call(t, cfg, http.MethodGet, "/v1/clusters/vc/"+path)
			require.Equal(t, c.code, code)
			require.JSONEq(t, c.body, body)
		}
	}
	cfg.Open = func(string, string, bool) bool { return false }
	code, body := call(t, cfg, http.MethodGet, "/v1/clusters/vc/status")
	require.Equal(t, http.StatusUnauthorized, code)
	require.NotContains(t, body, "deleted and")
}

func TestHandler_Agents(t *testing.T) {
	owned(t, func(x asked) {
		cluster, _ := x.cfg.Cluster("vc")
		list := &session.AgentList{Agents: []session.AgentInfo{{Session: 7, Zone: "a", Address: "h:9092", Version: "v1", State: session.AgentServes}}}
		cluster.Agents = func() (*session.AgentList, bool) { return list, list != nil }
		x.cfg.Cluster = served(map[string]operator.Cluster{"vc": cluster})
		code, body := call(x.t, x.cfg, http.MethodGet, "/v1/clusters/vc/agents")
		require.Equal(x.t, http.StatusOK, code)
		require.JSONEq(x.t, `{"agents":[{"session":7,"zone":"a","address":"h:9092","version":"v1","state":"serves","silence_seconds":0}],"more":0}`, body)
		list = nil
		code, body = call(x.t, x.cfg, http.MethodGet, "/v1/clusters/vc/agents")
		require.Equal(x.t, http.StatusServiceUnavailable, code)
		require.Contains(x.t, body, "the virtual cluster's owner has just changed")
		cluster.Owner = func() *owner.Owner { return nil }
		x.cfg.Cluster = served(map[string]operator.Cluster{"vc": cluster})
		x.cfg.Forwarder = nil
		code, _ = call(x.t, x.cfg, http.MethodGet, "/v1/clusters/vc/agents")
		require.Equal(x.t, http.StatusServiceUnavailable, code)
	})
}

func TestStatus_Find(t *testing.T) {
	age := 0.2
	agent := func(n uint32, zone, state string, silence float64) session.AgentInfo {
		return session.AgentInfo{Session: n, Zone: zone, Address: "h:9092", State: state, Silence: silence}
	}
	for name, tt := range map[string]struct {
		status operator.Status
		want   []string
	}{
		"healthy": {status: operator.Status{
			AgentsAge: &age,
			Plane: operator.Plane{
				Etcd:     []operator.EtcdMember{{Address: "e1:2379", Used: 9 << 20}, {Address: "e2:2379", Used: 89, Allowed: 100}},
				Replicas: []operator.Replica{{Replica: "r1", Address: "r1:7050"}, {Replica: "r2", Address: "r2:7050", Silence: 2.9}},
			},
			Agents: []session.AgentInfo{
				agent(1, "a", session.AgentServes, 4.9), agent(2, "a", session.AgentDrains, 0), agent(3, "a", session.AgentHidden, 1), agent(4, "", session.AgentJobs, 1),
			},
		}},
		"etcd almost full": {
			operator.Status{AgentsAge: &age, Plane: operator.Plane{Etcd: []operator.EtcdMember{{Address: "e1:2379", Used: 92, Allowed: 100}}}},
			[]string{"etcd e1:2379 etcd at e1:2379 uses 92% of its space (--quota-backend-bytes)"},
		},
		"silent replicas": {
			operator.Status{AgentsAge: &age, Plane: operator.Plane{Replicas: []operator.Replica{
				{Replica: "r1", Address: "r1:7050", HTTP: "r1:8090", Silence: 9.4}, {Replica: "r2", Address: "r2:7050", Silence: 300, Fault: "connection refused"},
			}}},
			[]string{
				"replica r1:7050 replica r1 at r1:7050 and r1:8090 has not been heard of for 9 s",
				"replica r2:7050 replica r2 at r2:7050 has not been heard of for 5 min: connection refused",
			},
		},
		"a replica that refuses the key": {
			operator.Status{AgentsAge: &age, Plane: operator.Plane{Replicas: []operator.Replica{{Replica: "r1", Address: "r1:7050", Silence: 1, Fault: "unknown or missing agent key", Refuses: true}}}},
			[]string{"replica r1:7050 replica r1 at r1:7050 refuses requests: unknown or missing agent key"},
		},
		"silent agents": {
			operator.Status{AgentsAge: &age, Agents: []session.AgentInfo{agent(1, "a", session.AgentHidden, 6), agent(2, "", session.AgentStopped, 8)}},
			[]string{
				"agent h:9092 agent 1 of zone a at h:9092 stopped answering 6 s ago",
				"agent h:9092 agent 2 at h:9092 stopped answering 8 s ago",
			},
		},
		"unknown agents": {
			operator.Status{AgentsFault: "no owner at the moment"},
			[]string{"agent  the agents are not known: no owner at the moment"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tt.status.Find()
			var got []string
			for _, f := range tt.status.Findings {
				got = append(got, f.Kind+" "+f.Subject+" "+f.Text)
			}
			require.Equal(t, tt.want, got)
		})
	}
	old := 3 * 3600.0
	s := operator.Status{AgentsAge: &old, Agents: []session.AgentInfo{agent(1, "a", session.AgentStopped, 5)}}
	s.Find()
	require.Equal(t, "agent 1 of zone a at h:9092 stopped answering 3 h ago", s.Findings[0].Text, "with the age of the list")
	require.WithinDuration(t, time.Now().Add(-3*time.Hour-5*time.Second), s.Findings[0].Since, time.Minute)
}

// The start of a fault is to the second, and absent if it is unknown.
func TestFinding_JSON(t *testing.T) {
	var s operator.Status
	s.Add(operator.AboutStore, "s:9000", "away\nfor long", time.Date(2026, 1, 2, 4, 4, 5, 6, time.FixedZone("", 3600)))
	s.Add(operator.AboutOwner, "main", "no owner", time.Time{})
	got, err := json.Marshal(s.Findings)
	require.NoError(t, err)
	require.JSONEq(t, `[{"kind":"object_store","subject":"s:9000","text":"away; for long","since":"2026-01-02T03:04:05Z"},
		{"kind":"owner","subject":"main","text":"no owner"}]`, string(got))
}
