package faults

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// remembered is the time in which a part that ends in good order would become a finding.
const remembered = 5 * time.Second

// TestStatus_NamesAStoppedPart stops one part of a cluster after the other. freshet status names each, with its address and the time
// since then, and has no findings before and after.
func TestStatus_NamesAStoppedPart(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 3, ControlPlanes: 3, Zones: []string{"a", "b"}})
	healthy := func() { // and each replica has answered since its lease was granted
		t.Helper()
		var last harness.Result
		harness.Await(t, "status without findings", func() bool {
			last = harness.Operate(t, c, "status")
			return last.Code == 0 && !slices.ContainsFunc(c.ControlPlanes, func(p *harness.ControlPlane) bool {
				return !regexp.MustCompile(regexp.QuoteMeta(p.GRPC) + ` +[^- ]`).MatchString(last.Out)
			})
		})
		require.Contains(t, last.Out, "Findings: none")
		t.Log(last.Out)
	}
	var longest time.Duration
	// names waits for findings about stopped parts. says is a pattern for each.
	names := func(stopped time.Time, says ...string) {
		t.Helper()
		var last harness.Result
		defer func() {
			if t.Failed() {
				t.Log(last.Out, last.Err)
			}
		}()
		harness.Await(t, "status names what has stopped", func() bool {
			began := time.Now()
			last = harness.Operate(t, c, "status")
			longest = max(longest, time.Since(began))
			return !slices.ContainsFunc(says, func(s string) bool { return !regexp.MustCompile(`(?m)^  ` + s + `$`).MatchString(last.Out) })
		})
		harness.Within(t, "time until status names "+strings.Join(says, " and "), time.Since(stopped), named)
		require.Equal(t, 3, last.Code, last.Err)
		require.NotContains(t, last.Out, "control plane at ", "a dead control plane is one finding, as a replica")
		t.Log(last.Out)
	}
	healthy()
	var status struct {
		Owner struct {
			Address string `json:"address"`
		} `json:"owner"`
	}
	require.NoError(t, json.Unmarshal([]byte(harness.Operate(t, c, "status", "-o", "json").Out), &status))
	if c.ControlPlanes[2].GRPC == status.Owner.Address { // its hand-over would be a finding for a moment
		c.ControlPlanes[1], c.ControlPlanes[2] = c.ControlPlanes[2], c.ControlPlanes[1]
	}
	paused, killed, last := c.Agents[1], c.Agents[2], c.ControlPlanes[2]
	for _, p := range []interface {
		Terminate(time.Duration) (time.Duration, error)
	}{killed, last} {
		_, err := p.Terminate(30 * time.Second)
		require.NoError(t, err)
	}
	first := *c
	first.ControlPlanes = c.ControlPlanes[:2]
	for until := time.Now().Add(remembered); time.Now().Before(until); { // parts that end in good order are no findings
		last := harness.Operate(t, &first, "status")
		require.Equal(t, 0, last.Code, last.Out)
	}
	killed.Restart()
	last.Restart()
	healthy()

	member := c.Etcd.Members[0]
	member.Stop()
	names(time.Now(), "etcd at "+member.Endpoint+` does not answer, \d+ s`)
	member.Cont()
	healthy()
	c.S3.Stop()
	names(time.Now(), "object store at "+strings.TrimPrefix(c.S3.Endpoint, "http://")+` does not answer, \d+ s`)
	c.S3.Cont()
	healthy()

	if last.Owns() { // since etcd was away; an owner that stops takes its knowledge of silent agents along
		last = c.ControlPlanes[1]
	}
	stopped := time.Now()
	paused.Stop()
	last.Stop()
	address := strings.TrimPrefix(last.HTTP, "http://")
	silent := `replica \S+ at ` + last.GRPC + " and " + address + ` has not been heard of for \d+ s`
	names(stopped, silent, `agent \d+ of zone b at `+paused.Bootstrap+` stopped answering \d+ s ago`)
	last.Cont()
	paused.Cont()
	healthy()

	stopped = time.Now()
	killed.Kill()
	last.Kill()
	names(stopped, silent+": connection refused", `agent \d+ of zone a at `+killed.Bootstrap+` stopped answering \d+ s ago`)
	killed.Restart()
	last.Restart()
	healthy()
	harness.Within(t, "longest answer of status", longest, 5*time.Second)
}
