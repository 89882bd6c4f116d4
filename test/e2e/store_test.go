package e2e

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

// TestStore_WhatIsWrongIsSaidAtStart: processes that cannot use the object store say why before anybody asks for anything,
// are not ready, and clients are not sent to those that are refused.
func TestStore_WhatIsWrongIsSaidAtStart(t *testing.T) {
	t.Parallel()
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 1, ControlPlanes: 1})
	refused := map[string]string{} // names by address, of agents that stay out
	var agents []*harness.Agent
	wrongKey, nowhere := *c.S3, *c.S3
	wrongKey.SecretKey = "not the key"
	nowhere.Endpoint = "http://127.0.0.1:1"
	for _, fault := range []struct{ name, bucket, says string }{
		{"wrong-key", wrongKey.URL("bucket", "freshet"), "object store refuses access"},
		{"no-bucket", c.S3.URL("nobucket", "freshet"), "there is no such bucket in the object store"},
		{"nowhere", nowhere.URL("bucket", "freshet"), "object store cannot be reached"},
	} {
		a := c.NewAgentWith(t, fault.name, "--bucket", fault.bucket)
		a.Launch()
		agents = append(agents, a)
		require.Eventually(t, func() bool { return strings.Contains(a.Output(), fault.says) }, time.Minute, 20*time.Millisecond, fault.name)
		require.Equal(t, http.StatusServiceUnavailable, status(t, a.HTTP+"/readyz"), fault.name)
		require.Eventually(t, func() bool {
			if strings.Contains(a.Output(), "agent does not join the cluster") {
				refused[a.Bootstrap] = fault.name
				return true
			}
			return strings.Contains(a.Output(), "session stream with the owner opened")
		}, time.Minute, 20*time.Millisecond, fault.name)
	}
	// An agent joins if the store has not refused it within 2 s; agent's TestAgent_WhatItDoesWithoutItsStore waits longer.
	t.Logf("refused by the store in time: %v", refused)
	p := c.NewControlPlaneWith(t, "controlplane-wrong-key", "--bucket", wrongKey.URL("bucket", "freshet"))
	p.Launch()
	require.Eventually(t, func() bool { return strings.Contains(p.Output(), "object store refuses access") }, time.Minute, 20*time.Millisecond)
	require.Equal(t, http.StatusServiceUnavailable, status(t, p.HTTP+"/readyz"))

	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()))
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	brokers, err := kadm.NewClient(client).ListBrokers(ctx)
	require.NoError(t, err)
	require.NotEmpty(t, brokers)
	for _, b := range brokers {
		require.NotContains(t, refused, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), "clients are sent to a refused agent")
	}
	for _, a := range agents {
		if refused[a.Bootstrap] != "" {
			require.NotContains(t, a.Output(), "session stream with the owner opened", a.Name)
		}
	}
}
