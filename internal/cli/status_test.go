package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// replicaSays serves a status at an address.
func replicaSays(t *testing.T, body string) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/clusters/main/status" || r.Header.Get("Authorization") != "Bearer k" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"error":"no such virtual cluster, or not its key"}`))
			return
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

const healthyStatus = `{"virtual_cluster":"main","replica":"cp-0","owner":{"replica":"cp-0","address":"10.0.0.1:7050"},"further":1,
 "replicas":[{"replica":"cp-0","address":"10.0.0.1:7050","version":"v1.2.0","uptime_seconds":11000,"silence_seconds":0},
  {"replica":"cp-1","address":"10.0.0.2:7050","silence_seconds":0.4}],
 "etcd":[{"address":"10.0.0.1:2379","leader":true,"latency_seconds":0.0012,"used_bytes":1572864,"allowed_bytes":2147483648},
  {"address":"10.0.0.2:2379","leader":false,"latency_seconds":0.01,"used_bytes":20480,"allowed_bytes":0}],
 "object_store":{"location":"s3://records?region=eu-central-1","address":"s3.eu-central-1.amazonaws.com"},
 "agents":[{"session":3,"zone":"a","address":"10.0.0.5:9092","version":"v1.2.0","state":"serves","silence_seconds":0.3,"uptime_seconds":42,"load":0.31,"connections":12},
  {"session":4,"zone":"","address":"10.0.0.6:9092","version":"v1.1.0","state":"serves","silence_seconds":1}],
 "more_agents":0,"agents_age_seconds":0.01,"findings":[]}`

func TestShowStatus_Healthy(t *testing.T) {
	c := OperatorConfig{ControlPlane: []string{replicaSays(t, healthyStatus)}, VirtualCluster: "main", Key: "k"}
	var out bytes.Buffer
	require.NoError(t, ShowStatus(t.Context(), c, Streams{Out: &out}))
	require.Equal(t, `Virtual cluster main, as replica cp-0 knows it

Control plane: replica cp-0 at 10.0.0.1:7050 is the owner
  REPLICA  ADDRESS        VERSION  UPTIME  STATE
  cp-0     10.0.0.1:7050  v1.2.0   3 h     owner
  cp-1     10.0.0.2:7050  -        -       standby

Etcd
  MEMBER         LATENCY  USED      ALLOWED  STATE
  10.0.0.1:2379  1.2 ms   1.5 MiB   2.0 GiB  leader
  10.0.0.2:2379  10.0 ms  20.0 KiB  -        follower

Object store
  BUCKET        STATE
  s3://records  works

Agents
  ZONE    AGENT  ADDRESS        VERSION  UPTIME  LOAD  CONNECTIONS  STATE
  a       3      10.0.0.5:9092  v1.2.0   42 s    31%   12           serves
  (none)  4      10.0.0.6:9092  v1.1.0   -       -     -            serves

Findings: none
`, out.String())
	out.Reset()
	require.NoError(t, ShowStatus(t.Context(), c, Streams{Out: &out, Format: FormatJSON}))
	require.JSONEq(t, healthyStatus, out.String(), "the replica's answer, whole")
}

// The answer of the replica that knows an owner counts, with the findings of the others and the addresses that do not answer.
func TestShowStatus_MergesReplicas(t *testing.T) {
	behind := `{"virtual_cluster":"main","replica":"cp-1","owner":null,"replicas":[],"etcd":[],"object_store":{"location":"s3://records"},"agents":[],
	 "agents_age_seconds":null,"findings":[{"kind":"object_store","subject":"store:9000","text":"object store at store:9000 does not answer, 7 s"},
	 {"kind":"etcd","subject":"etcd:2379","text":"etcd at etcd:2379 does not answer, 9 s"},
	 {"kind":"owner","subject":"main","text":"virtual cluster main has no owner"},{"kind":"agent","subject":"","text":"the agents are not known: no owner"}]}`
	ahead := strings.Replace(healthyStatus, `"findings":[]`, `"findings":[
	 {"kind":"etcd","subject":"etcd:2379","text":"etcd at etcd:2379 does not answer, 8 s"},
	 {"kind":"agent","subject":"a:9092","text":"agent 3 at a:9092 stopped answering 5 s ago"},
	 {"kind":"agent","subject":"a:9092","text":"agent 2 at a:9092 stopped answering 9 s ago"}]`, 1)
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer hangs.Close()
	silent := strings.TrimPrefix(hangs.URL, "http://")
	c := OperatorConfig{
		ControlPlane:   []string{"127.0.0.1:1", replicaSays(t, behind), silent, replicaSays(t, ahead)},
		VirtualCluster: "main", Key: "k", Timeout: 300 * time.Millisecond,
	}
	var out bytes.Buffer
	err := ShowStatus(t.Context(), c, Streams{Out: &out})
	var found *FindingsError
	require.ErrorAs(t, err, &found)
	require.EqualError(t, err, "6 findings")
	_, findings, _ := strings.Cut(out.String(), "\nFindings\n")
	require.Equal(t, `  control plane at 127.0.0.1:1 does not answer (connection refused)
  control plane at `+silent+` does not answer
  etcd at etcd:2379 does not answer, 8 s
  agent 3 at a:9092 stopped answering 5 s ago
  agent 2 at a:9092 stopped answering 9 s ago
  object store at store:9000 does not answer, 7 s
`, findings)

	out.Reset()
	require.EqualError(t, ShowStatus(t.Context(), c, Streams{Out: &out, Format: FormatJSON}), "6 findings")
	var answer struct {
		Replica  string    `json:"replica"`
		Findings []finding `json:"findings"`
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &answer))
	require.Equal(t, "cp-0", answer.Replica)
	require.Equal(t, finding{Kind: "control_plane", Subject: "127.0.0.1:1", Text: "control plane at 127.0.0.1:1 does not answer (connection refused)"}, answer.Findings[0])

	c.ControlPlane = c.ControlPlane[1:2]
	out.Reset()
	require.EqualError(t, ShowStatus(t.Context(), c, Streams{Out: &out}), "4 findings")
	require.Contains(t, out.String(), "Control plane: no owner\n")
	require.Contains(t, out.String(), "Agents: not known\n")
	c.Key = "wrong"
	require.EqualError(t, ShowStatus(t.Context(), c, Streams{Out: &out}), "no such virtual cluster, or not its key")
	c.ControlPlane = []string{"127.0.0.1:1", silent}
	err = ShowStatus(t.Context(), c, Streams{Out: &out})
	require.ErrorIs(t, err, errUnreachable)
	require.ErrorIs(t, err, errUnavailable)
	require.NotErrorAs(t, err, &found)
}

// The listener at an address may answer with any JSON.
func TestShowStatus_RefusesAnEmptyAnswer(t *testing.T) {
	c := OperatorConfig{ControlPlane: []string{replicaSays(t, "null")}, VirtualCluster: "main", Key: "k"}
	var out bytes.Buffer
	require.ErrorContains(t, ShowStatus(t.Context(), c, Streams{Out: &out, Format: FormatJSON}), "answer of "+c.ControlPlane[0]+": no status of a virtual cluster")
	require.Empty(t, out.String())
}

// One replica still names an owner that died and has no agents. Another one has no owner and the last list of agents.
func TestShowStatus_TakesOwnerAndAgentsOfDifferentReplicas(t *testing.T) {
	knowsOwner := `{"virtual_cluster":"main","replica":"cp-1","owner":{"replica":"cp-9","address":"10.0.0.9:7050"},"replicas":[],"etcd":[],"object_store":{},
	 "agents":[],"agents_age_seconds":null,"agents_fault":"ask the owner","findings":[{"kind":"agent","subject":"","text":"the agents are not known: ask the owner: does not answer"}]}`
	knowsAgents := `{"virtual_cluster":"main","replica":"cp-0","owner":null,"replicas":[],"etcd":[],"object_store":{},
	 "agents":[{"session":3,"zone":"a","address":"10.0.0.5:9092","state":"stopped","silence_seconds":9}],"agents_age_seconds":8,
	 "findings":[{"kind":"agent","subject":"10.0.0.5:9092","text":"agent 3 of zone a at 10.0.0.5:9092 stopped answering 17 s ago"}]}`
	c := OperatorConfig{ControlPlane: []string{replicaSays(t, knowsOwner), replicaSays(t, knowsAgents)}, VirtualCluster: "main", Key: "k"}
	var out bytes.Buffer
	require.EqualError(t, ShowStatus(t.Context(), c, Streams{Out: &out}), "1 finding")
	require.Contains(t, out.String(), "Control plane: replica cp-9 at 10.0.0.9:7050 is the owner\n")
	require.Contains(t, out.String(), "Agents, as of 8 s ago\n")
	require.Contains(t, out.String(), "agent 3 of zone a at 10.0.0.5:9092 stopped answering 17 s ago\n")
	require.NotContains(t, out.String(), "not known")

	out.Reset()
	require.EqualError(t, ShowStatus(t.Context(), c, Streams{Out: &out, Format: FormatJSON}), "1 finding")
	var answer map[string]any
	require.NoError(t, json.Unmarshal(out.Bytes(), &answer))
	require.Equal(t, "cp-1", answer["replica"])
	require.Len(t, answer["agents"], 1)
	require.InDelta(t, 8, answer["agents_age_seconds"], 0)
	require.NotContains(t, answer, "agents_fault")
}

// The registration of a killed process stays under its old address until the lease ends, beside the new one with the same ID.
func TestShowStatus_OwnerByAddress(t *testing.T) {
	restarted := strings.Replace(healthyStatus, `{"replica":"cp-1",`, `{"replica":"cp-0",`, 1)
	c := OperatorConfig{ControlPlane: []string{replicaSays(t, restarted)}, VirtualCluster: "main", Key: "k"}
	var out bytes.Buffer
	require.NoError(t, ShowStatus(t.Context(), c, Streams{Out: &out}))
	require.Regexp(t, `cp-0 +10.0.0.1:7050 .*owner\n`, out.String())
	require.Regexp(t, `cp-0 +10.0.0.2:7050 .*standby\n`, out.String())
}

// A control plane of an older version has no route for the status. It is no finding beside a replica that has one.
func TestShowStatus_OlderReplica(t *testing.T) {
	routes := http.NewServeMux()
	routes.HandleFunc("GET /v1/clusters/main/deleted-topics", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"topics":[]}`)) })
	older := httptest.NewServer(routes)
	defer older.Close()
	address := strings.TrimPrefix(older.URL, "http://")
	c := OperatorConfig{ControlPlane: []string{address, replicaSays(t, healthyStatus)}, VirtualCluster: "main", Key: "k"}
	var out bytes.Buffer
	require.NoError(t, ShowStatus(t.Context(), c, Streams{Out: &out}))
	require.Contains(t, out.String(), "Findings: none")
	require.Contains(t, out.String(), "\nControl plane at "+address+" is of an older version without status\n")
	c.ControlPlane = c.ControlPlane[:1]
	require.EqualError(t, ShowStatus(t.Context(), c, Streams{Out: &out}), "control plane at "+address+": an older version without status")

	foreign := httptest.NewServer(http.NotFoundHandler())
	defer foreign.Close()
	c.ControlPlane = []string{strings.TrimPrefix(foreign.URL, "http://")}
	require.ErrorContains(t, ShowStatus(t.Context(), c, Streams{Out: &out}), "speaks HTTP, but is no control plane's")
}

// A dead control plane is one finding, by both of its addresses, and the replica that noticed the fault first dates it.
func TestShowStatus_OneFindingOfADeadControlPlane(t *testing.T) {
	answer := func(replica string, silence int, since string) string {
		return fmt.Sprintf(`{"virtual_cluster":"main","replica":"%s","owner":{"replica":"cp-0","address":"10.0.0.1:7050"},"etcd":[],"object_store":{},"agents":[],
		 "agents_age_seconds":0,"replicas":[{"replica":"cp-2","address":"10.0.0.3:7050","http_address":"127.0.0.1:1","silence_seconds":%d}],
		 "findings":[{"kind":"replica","subject":"10.0.0.3:7050","text":"as %[1]s knows it","since":"%[3]s"}]}`, replica, silence, since)
	}
	c := OperatorConfig{
		ControlPlane: []string{
			replicaSays(t, answer("cp-0", 7, "2026-01-01T00:00:02Z")), replicaSays(t, answer("cp-1", 9, "2026-01-01T00:00:00Z")), "http://127.0.0.1:1/",
		},
		VirtualCluster: "main", Key: "k",
	}
	var out bytes.Buffer
	require.EqualError(t, ShowStatus(t.Context(), c, Streams{Out: &out, Format: FormatJSON}), "1 finding")
	require.Contains(t, out.String(), `"text": "as cp-1 knows it"`)
	require.Contains(t, out.String(), `"since": "2026-01-01T00:00:00Z"`)

	c.ControlPlane[0], c.ControlPlane[1] = replicaSays(t, answer("cp-0", 2, "2026-01-01T00:00:02Z")), "127.0.0.1:2"
	out.Reset()
	require.EqualError(t, ShowStatus(t.Context(), c, Streams{Out: &out}), "3 findings", "it is not silent yet, and another address is unknown")
}

// Replicas that refuse a request for the same reason are one line.
func TestOperator_EqualErrorsOnce(t *testing.T) {
	refusing := func(status int, body string) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error":"` + body + `"}`))
		}))
		t.Cleanup(server.Close)
		return server.URL
	}
	ask := func(status int, bodies ...string) (shown, listed error) {
		c := OperatorConfig{VirtualCluster: "main", Key: "k"}
		for _, body := range bodies {
			c.ControlPlane = append(c.ControlPlane, refusing(status, body))
		}
		return ShowStatus(t.Context(), c, Streams{Out: io.Discard}), ListZones(t.Context(), c, false, Streams{Out: io.Discard, Err: io.Discard})
	}
	shown, listed := ask(http.StatusUnauthorized, "not its key", "not its key")
	require.EqualError(t, shown, "not its key")
	require.EqualError(t, listed, "not its key")
	shown, listed = ask(http.StatusServiceUnavailable, "no owner (etcd at e:1 does not answer, 9 s)", "no owner (etcd at e:1 does not answer, 10 s)", "other")
	require.EqualError(t, shown, "control plane did not answer: no owner (etcd at e:1 does not answer, 9 s)\ncontrol plane did not answer: other")
	require.EqualError(t, listed, shown.Error())
}
