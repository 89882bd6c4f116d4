package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// TestSetup_WrongBucketIsRefused: an agent, and a control plane, with another prefix than the cluster's ends before it has
// taken a record, and says why in one line.
func TestSetup_WrongBucketIsRefused(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	elsewhere := c.S3.URL("bucket", "elsewhere")
	a := c.NewAgentWith(t, "agent-elsewhere", "--bucket", elsewhere)
	p := c.NewControlPlaneWith(t, "controlplane-elsewhere", "--bucket", elsewhere)
	a.Launch()
	says := func(output func() string, end string) {
		t.Helper()
		require.Eventually(t, func() bool {
			for line := range strings.SplitSeq(output(), "\n") {
				if strings.HasPrefix(line, "freshet: --bucket s3://bucket/elsewhere") && strings.HasSuffix(line, end) {
					return true
				}
			}
			return false
		}, time.Minute, 20*time.Millisecond, "%s", output)
	}
	says(a.Output, ": set --bucket to the control plane's")
	require.NotContains(t, a.Output(), "session stream with the owner opened", "it has never joined")

	// A control plane can tell once the state refers to an object.
	harness.CLI(t, c.Bootstrap(), strings.NewReader("a\n"), "topic", "create", "t")
	harness.CLI(t, c.Bootstrap(), strings.NewReader("a\n"), "produce", "t")
	_, err := c.ControlPlanes[0].Terminate(time.Minute)
	require.NoError(t, err)
	p.Launch()
	says(p.Output, ": set --bucket, --etcd and --etcd-prefix to those of one cluster")
}

// TestSetup_AgentKeyThatNobodyKnowsEndsTheStart: after half a minute of refusals the agent gives up, and names the setting.
func TestSetup_AgentKeyThatNobodyKnowsEndsTheStart(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	a := c.NewAgentWith(t, "agent-stranger", "--agent-key", "another")
	a.Launch()
	require.Eventually(t, func() bool {
		return strings.Contains(a.Output(), "\nfreshet: --agent-key (SHA-256 ae448ac8...) is unknown to the control plane at "+c.ControlPlanes[0].GRPC+
			": set it to one of the control plane's --agent-key\n")
	}, 2*time.Minute, 100*time.Millisecond)
}

// TestSetup_LargeRecords: produce sends what the topic takes.
func TestSetup_LargeRecords(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t)
	harness.CLI(t, dev.Bootstrap, nil, "topic", "create", "large", "-c", "max.message.bytes=8000000")
	line := strings.Repeat("x", 7_900_000)
	harness.CLI(t, dev.Bootstrap, strings.NewReader(line+"\n"), "produce", "large")
	require.Equal(t, line+"\n", harness.CLI(t, dev.Bootstrap, nil, "consume", "large", "--from", "earliest", "-e"))
	r := harness.TryCLI(t, dev.Bootstrap, strings.NewReader(strings.Repeat("x", 8_100_000)+"\n"), "produce", "large")
	require.NotZero(t, r.Code)
	require.Contains(t, r.Err, `a record is larger than topic "large" takes; raise it with`)
}
