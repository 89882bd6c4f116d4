package faults

import (
	"testing"
	"time"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

const (
	// crashStall is how long a crash may keep a producer waiting: a lease of 5 s and 2 s more.
	crashStall = 7 * time.Second
	// electionStall is that with one election of etcd's.
	electionStall = 9 * time.Second
)

// startCluster is the cluster of most tests here: three agents, two control planes, three etcd members, an S3 server.
func startCluster(t *testing.T) *harness.Cluster {
	t.Helper()
	return harness.StartCluster(t, harness.ClusterConfig{Agents: 3, ControlPlanes: 2, EtcdMembers: 3})
}

func bootstraps(c *harness.Cluster) []string {
	var all []string
	for _, a := range c.Agents {
		all = append(all, a.Bootstrap)
	}
	return all
}

// TestKill kills one process after another of a cluster with kill -9, each while producers write, and starts it again.
func TestKill(t *testing.T) {
	t.Parallel()
	c := startCluster(t)
	follower := func() *testservers.EtcdMember {
		leader := c.Etcd.Leader(t)
		for _, m := range c.Etcd.Members {
			if m != leader {
				return m
			}
		}
		return nil
	}
	cases := []struct {
		what   string
		victim func() *testservers.Process
		limit  time.Duration
	}{
		{"the agent that writes for its zone", func() *testservers.Process { writer, _ := zoneWriter(t, c); return writer.Process }, crashStall},
		{"an agent that hands over to it", func() *testservers.Process { _, other := zoneWriter(t, c); return other.Process }, crashStall},
		{"the owner", func() *testservers.Process { return c.Owner(t).Process }, crashStall},
		{"an etcd follower", func() *testservers.Process { return follower().Process }, crashStall},
		{"the etcd leader", func() *testservers.Process { return c.Etcd.Leader(t).Process }, electionStall},
	}
	for _, k := range cases {
		t.Run(k.what, func(t *testing.T) {
			tr := startTraffic(t, bootstraps(c)...)
			victim := k.victim()
			victim.Kill()
			tr.flows()
			victim.Restart()
			tr.flows()
			harness.Within(t, "longest stall", tr.finish(), k.limit)
			serving(t, c)
		})
	}
	t.Run("all agents at once", func(t *testing.T) {
		tr := startTraffic(t, bootstraps(c)...)
		for _, a := range c.Agents {
			a.Kill()
		}
		for _, a := range c.Agents {
			a.Launch()
		}
		tr.flows()
		harness.Within(t, "longest stall", tr.finish(), crashStall)
		serving(t, c)
	})
}

// serving checks that every part of the cluster takes part again: each agent has its session and answers writes and
// reads by itself.
func serving(t *testing.T, c *harness.Cluster) {
	t.Helper()
	c.Owner(t)
	for _, a := range c.Agents {
		harness.Await(t, "the agent has a stream with the owner", a.Connected)
		roundTrip(t, a.Bootstrap)
	}
}
