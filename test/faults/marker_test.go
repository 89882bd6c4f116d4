package faults

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore/marker"
	bucketopen "github.com/freshet-io/freshet/objstore/open"
	"github.com/freshet-io/freshet/test/harness"
)

// markerFault is how long the store refuses access to the object with the cluster id. An agent whose bucket was not compared yet
// ends after 30 s.
const markerFault = 40 * time.Second

// TestMarker_Withheld withholds the object with the cluster id from a cluster that runs, and starts processes meanwhile. No
// agent ends, and every agent serves during the fault and after it.
func TestMarker_Withheld(t *testing.T) {
	t.Parallel()
	key := marker.Key("main")
	store := harness.NewFaultyStore(t)
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 2, ControlPlanes: 1, Front: store.Front})
	harness.CLI(t, c.Bootstrap(), nil, "topic", "create", "t")
	for _, f := range []struct {
		harness.StoreFault
		lasts time.Duration
	}{
		{harness.StoreFault{Status: http.StatusForbidden, Code: "AccessDenied"}, markerFault},
		{harness.StoreFault{Status: http.StatusOK}, 0},
		{harness.StoreFault{Status: http.StatusServiceUnavailable, Code: "SlowDown"}, 0},
	} {
		store.Fail("/"+key, f.StoreFault)
		changeOwner(t, c)
		harness.During(f.lasts, func() { requireRunning(t, c) })
		produceToEach(t, c)
		requireRunning(t, c)
		require.Greater(t, store.Heal("/"+key), len(c.Agents), "each agent and the new owner met the fault")
		c.ControlPlanes[0].AwaitReady()
	}
	changeOwner(t, c)
	c.ControlPlanes[0].AwaitReady()
	produceToEach(t, c)
	requireRunning(t, c)
}

// TestMarker_Removed is TestMarker_Withheld for an object that is removed. The next process writes it again.
func TestMarker_Removed(t *testing.T) {
	t.Parallel()
	key := marker.Key("main")
	c := harness.StartCluster(t, harness.ClusterConfig{Agents: 2, ControlPlanes: 2})
	harness.CLI(t, c.Bootstrap(), nil, "topic", "create", "t")
	produceToEach(t, c)
	bucket, err := bucketopen.Bucket(t.Context(), c.BucketURL)
	require.NoError(t, err)
	defer bucket.Close()
	require.NoError(t, bucket.Delete(t.Context(), []string{key}))
	owner := c.Owner(t)
	for _, p := range c.ControlPlanes {
		if p != owner {
			p.Kill()
			p.Launch()
		}
	}
	c.Agents[0].Kill()
	c.Agents[0].Launch()
	for _, p := range c.ControlPlanes {
		p.AwaitReady()
	}
	c.Agents[0].AwaitReady()
	_, err = marker.Read(t.Context(), bucket, "main")
	require.NoError(t, err)
	produceToEach(t, c)
	requireRunning(t, c)
}

// changeOwner kills the only control plane, and waits until each agent has a stream with the next owner.
func changeOwner(t *testing.T, c *harness.Cluster) {
	t.Helper()
	c.ControlPlanes[0].Kill()
	for _, a := range c.Agents {
		harness.Await(t, "an agent loses the owner", func() bool { return !a.Running() || !a.Connected() })
	}
	c.ControlPlanes[0].Launch()
	for _, a := range c.Agents {
		harness.Await(t, "an agent reaches the next owner", func() bool { return !a.Running() || a.Connected() })
	}
	requireRunning(t, c)
}

func requireRunning(t *testing.T, c *harness.Cluster) {
	t.Helper()
	for _, a := range c.Agents {
		require.True(t, a.Running(), a.Output())
	}
}

func produceToEach(t *testing.T, c *harness.Cluster) {
	t.Helper()
	for _, a := range c.Agents {
		harness.CLI(t, a.Bootstrap, strings.NewReader("a\n"), "produce", "t")
	}
}
