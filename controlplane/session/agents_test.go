package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/operator"
	"github.com/freshet-io/freshet/controlplane/session"
)

// at sets the agent's address, and its load if there is one.
func at(host string, load *api.Load) func(*client.Config) {
	return func(c *client.Config) {
		c.Endpoints = []*api.Endpoint{{Host: host, Port: 9092}}
		if load != nil {
			c.Load = func() *api.Load { return load }
		}
	}
}

// agentsOf returns the agents that the owner lists, by address.
func agentsOf(t *testing.T, n *node) map[string]session.AgentInfo {
	t.Helper()
	list, ok := n.sessions.Agents()
	require.True(t, ok)
	all := map[string]session.AgentInfo{}
	for _, a := range list.Agents {
		require.NotContains(t, all, a.Address)
		all[a.Address] = a
	}
	return all
}

func TestCluster_Agents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("a")
		loaded := w.agent(at("loaded", &api.Load{Cpu: 0.2, Buffers: 0.4, Connections: proto.Uint32(7), UptimeMs: proto.Uint64(90_000)}))
		older := w.agent(at("older", &api.Load{Cpu: 0.1})) // reports neither connections nor uptime
		mute := w.agent(at("mute", nil))
		leaving := w.agent(at("leaving", nil))
		for _, one := range []*agent{loaded, older, mute, leaving} {
			one.opened()
		}
		time.Sleep(time.Second)
		all := agentsOf(t, n)
		require.Len(t, all, 4)
		got := all["loaded:9092"]
		require.Equal(t, []any{"a", "test", session.AgentServes, uint32(7), 90.0, 0.4},
			[]any{got.Zone, got.Version, got.State, *got.Connections, *got.Uptime, *got.Load})
		require.Less(t, got.Silence, 1.1)
		require.NotNil(t, all["older:9092"].Load)
		require.Nil(t, all["older:9092"].Connections)
		require.Nil(t, all["older:9092"].Uptime)
		require.Nil(t, all["mute:9092"].Load)

		require.NoError(t, leaving.Drain(t.Context()))
		require.Equal(t, session.AgentDrains, agentsOf(t, n)["leaving:9092"].State)
		require.NoError(t, leaving.Goodbye(t.Context()))
		require.NotContains(t, agentsOf(t, n), "leaving:9092", "an agent that closes its session is not remembered")

		mute.leave()
		time.Sleep(3 * time.Second)
		got = agentsOf(t, n)["mute:9092"]
		require.Equal(t, session.AgentHidden, got.State)
		require.InDelta(t, 3, got.Silence, 1.1)
		time.Sleep(5 * time.Second)
		got = agentsOf(t, n)["mute:9092"]
		require.Equal(t, session.AgentStopped, got.State)
		require.InDelta(t, 8, got.Silence, 1.1)
		require.Nil(t, n.sessions.LastAgents())
		w.stop(n)
		require.Len(t, n.sessions.LastAgents().Agents, 3, "the end of a tenure leaves the list")
		for _, one := range []*agent{loaded, older, leaving} {
			one.leave()
		}
	})
}

// A restarted agent replaces the agent before it. The next owner remembers a stopped agent, but not one that drained.
func TestCluster_AgentsOfTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.start("a")
		w.waitFor("ownership", func() bool { return first.Owner() != nil })
		second := w.start("b")
		restarts, stops, drains := w.agent(at("restarts", nil)), w.agent(at("stops", nil)), w.agent(at("drains", nil))
		for _, one := range []*agent{restarts, stops, drains} {
			one.opened()
		}
		old := agentsOf(t, first)["restarts:9092"].Session
		require.NoError(t, drains.Drain(t.Context()))
		for _, one := range []*agent{restarts, stops, drains} {
			one.leave()
		}
		time.Sleep(2 * time.Second)
		again := w.agent(at("restarts", nil))
		again.opened()
		for range 2 { // while the old session is open, and when it is closed
			got := agentsOf(t, first)["restarts:9092"]
			require.NotEqual(t, old, got.Session)
			require.Equal(t, session.AgentServes, got.State)
			time.Sleep(10 * time.Second)
		}
		before, silence := time.Now(), agentsOf(t, first)["stops:9092"].Silence
		w.stop(first)
		w.waitFor("another owner", func() bool { return second.sessions.Loads() != nil })
		time.Sleep(4 * time.Second)
		all := agentsOf(t, second)
		silence += time.Since(before).Seconds()
		require.Len(t, all, 2)
		require.Equal(t, session.AgentServes, all["restarts:9092"].State)
		require.Equal(t, session.AgentStopped, all["stops:9092"].State)
		// It may have left before the owner read its first probe, which allows it more silence.
		require.InDelta(t, silence-7, all["stops:9092"].Silence, 3, "since the first owner closed the session, seconds after the last sign of life")
		time.Sleep(10 * time.Minute)
		require.Len(t, agentsOf(t, second), 1, "memory of ten minutes")
		require.NoError(t, again.Drain(t.Context()))
		require.NoError(t, again.Goodbye(t.Context()))
		require.Empty(t, agentsOf(t, second), "the session before it does not come back")
		again.leave()
		w.stop(second)
	})
}

// The state keeps the closed session of a zone's last agent for a day. Owners forget the agent after ten minutes.
func TestCluster_NewOwnerReportsNoAgentThatStoppedLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.start("a")
		w.waitFor("ownership", func() bool { return first.Owner() != nil })
		second := w.start("b")
		stays, stops := w.agent(at("stays", nil)), w.agent(at("stops", nil), func(c *client.Config) { c.Zone = "other" })
		stays.opened()
		stops.opened()
		stops.leave()
		time.Sleep(2 * time.Hour) // sleeps: the clock is fake
		require.Len(t, agentsOf(t, first), 1, "ten minutes are over")
		w.stop(first)
		w.waitFor("another owner", func() bool { return second.sessions.Loads() != nil })
		time.Sleep(4 * time.Second)
		all := agentsOf(t, second)
		require.NotContains(t, all, "stops:9092")
		require.Equal(t, session.AgentServes, all["stays:9092"].State)
		stays.leave()
		w.stop(second)
	})
}

// An agent that drained has given notice. If its goodbye is lost, its session stays open until it expires.
func TestCluster_DrainedAgentIsNoFinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("a")
		stays, drains := w.agent(at("stays", nil)), w.agent(at("drains", nil))
		stays.opened()
		drains.opened()
		require.NoError(t, drains.Drain(t.Context()))
		drains.leave()
		age := 0.0
		for range 10 {
			time.Sleep(time.Second) // sleeps: the clock is fake
			list, ok := n.sessions.Agents()
			require.True(t, ok)
			s := operator.Status{Agents: list.Agents, AgentsAge: &age}
			s.Find()
			require.Empty(t, s.Findings)
		}
		stays.leave()
		w.stop(n)
	})
}
