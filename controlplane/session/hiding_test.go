package session_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestHiding_KilledAgent: Metadata shows an agent that is killed for little more than a second, while its session lives on
// until it expires.
func TestHiding_KilledAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		a, b := w.join(), w.join()
		gone := b.ID()
		b.leave()
		time.Sleep(900 * time.Millisecond)
		sessions, version := w.shown(n)
		require.Equal(t, []id.Session{a.ID(), gone}, sessions)
		time.Sleep(600 * time.Millisecond)
		sessions, after := w.shown(n)
		require.Equal(t, []id.Session{a.ID()}, sessions)
		require.Equal(t, version+1, after, "leader epochs rise")
		a.read(func() { require.Equal(t, 1, a.members, "agents are told") })
		require.False(t, w.closedSession(n, gone))
		time.Sleep(8 * time.Second)
		require.True(t, w.closedSession(n, gone))
		_, closed := w.shown(n)
		require.Equal(t, after, closed, "it was out of the membership before")
		w.end(n, a)
	})
}

// TestHiding_CutOffAgentComesBack: an agent that was cut off and hidden is shown again when it is back, under the same
// session and node ids, and its commits took effect once. One that is back within a second is not hidden.
func TestHiding_CutOffAgentComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		var link network
		a, b := w.join(), w.join(link.configure)
		both := []id.Session{a.ID(), b.ID()}
		_, version := w.shown(n)

		link.cut(false) // it is back at once
		time.Sleep(2 * time.Second)
		sessions, same := w.shown(n)
		require.Equal(t, both, sessions)
		require.Equal(t, version, same)

		link.cut(true)
		time.Sleep(2 * time.Second)
		sessions, _ = w.shown(n)
		require.Equal(t, both[:1], sessions)
		settled := make(chan error, 1)
		go func() {
			_, err := b.submit(plain(tp))
			settled <- err
		}()
		time.Sleep(time.Second)
		link.cut(false)
		require.NoError(t, <-settled)
		time.Sleep(time.Second)
		sessions, _ = w.shown(n)
		require.Equal(t, both, sessions)
		result, err := b.submit(plain(tp))
		require.NoError(t, err)
		require.EqualValues(t, 1, result.Sections[0].Spans[0].Base, "the one before is there once")
		b.read(func() { require.Zero(t, b.closed) })
		w.end(n, a, b)
	})
}

// flap cuts an agent off for long enough to be hidden, and lets it come back.
func (n *network) flap() {
	n.cut(true)
	time.Sleep(2 * time.Second)
	n.cut(false)
}

// TestHiding_StaysHiddenWhileItComesAndGoes: an agent that was hidden before is not shown while its connections last less than
// showAfter, so the membership does not change. Others join at once, and the agent leaves in order.
func TestHiding_StaysHiddenWhileItComesAndGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		var link network
		a, b := w.join(), w.join(link.configure)
		link.flap()
		time.Sleep(time.Second)
		both, _ := w.shown(n)
		require.Equal(t, []id.Session{a.ID(), b.ID()}, both, "the first time")
		link.flap()
		_, before := w.shown(n)
		for range 50 {
			time.Sleep(4 * time.Second)
			link.flap()
		}
		sessions, after := w.shown(n)
		require.Equal(t, []id.Session{a.ID()}, sessions)
		require.Equal(t, before, after)
		time.Sleep(6 * time.Second)
		both, _ = w.shown(n)
		require.Equal(t, []id.Session{a.ID(), b.ID()}, both, "it has stayed")
		link.flap()

		c := w.join()
		sessions, _ = w.shown(n)
		require.Equal(t, []id.Session{a.ID(), c.ID()}, sessions)
		time.Sleep(time.Second)
		require.NoError(t, b.Drain(t.Context()))
		require.NoError(t, b.Goodbye(t.Context()))
		synctest.Wait()
		require.True(t, w.closedSession(n, b.ID()))
		w.end(n, a, b, c)
	})
}

// TestHiding_OnlyAgentOfItsZone shows the only agent of a zone at once, however often it comes and goes.
func TestHiding_OnlyAgentOfItsZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		in := func(zone string) func(*client.Config) { return func(c *client.Config) { c.Zone = zone } }
		var link, second network
		a, b := w.join(in("a")), w.join(in("b"), link.configure)
		for range 5 {
			link.flap()
			time.Sleep(time.Second)
			sessions, _ := w.shown(n)
			require.Equal(t, []id.Session{a.ID(), b.ID()}, sessions)
		}
		c := w.join(in("b"), second.configure)
		link.flap()
		time.Sleep(time.Second)
		sessions, _ := w.shown(n)
		require.Equal(t, []id.Session{a.ID(), c.ID()}, sessions, "there is another")
		second.cut(true)
		time.Sleep(2 * time.Second)
		sessions, _ = w.shown(n)
		require.Equal(t, []id.Session{a.ID(), b.ID()}, sessions, "there is no other any more")
		w.end(n, a, b, c)
	})
}

// TestHiding_RestartedAgent kills a cluster and starts it again. A new owner shows the sessions of killed agents until new processes with
// their addresses connect, and other sessions until they expire.
func TestHiding_RestartedAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		at := func(host string) func(*client.Config) {
			return func(c *client.Config) { c.Endpoints = []*api.Endpoint{{Host: host, Port: 9092}} }
		}
		other := w.start("r2")
		a, b, c := w.join(at("a")), w.join(at("b")), w.join(at("c"))
		old := []id.Session{a.ID(), b.ID(), c.ID()}
		w.stop(n)
		for _, killed := range []*agent{a, b, c} {
			killed.leave()
		}
		w.waitFor("ownership", func() bool { return other.Owner() != nil })
		sessions, _ := w.shown(other)
		require.Equal(t, old, sessions)
		newA, newB := w.join(at("a")), w.join(at("b"))
		time.Sleep(time.Second)
		sessions, _ = w.shown(other)
		require.Equal(t, []id.Session{old[2], newA.ID(), newB.ID()}, sessions, "no process has the address of c")
		require.False(t, w.closedSession(other, old[0]), "its commits in flight still count")
		time.Sleep(6 * time.Second)
		sessions, _ = w.shown(other)
		require.Equal(t, []id.Session{newA.ID(), newB.ID()}, sessions)
		w.end(other, newA, newB)
	})
}

// TestHiding_NobodyLeft: an owner that has lost all agents at once hides none of them.
func TestHiding_NobodyLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		var link network
		a, b := w.join(link.configure), w.join(link.configure)
		both, version := w.shown(n)
		require.Len(t, both, 2)
		link.cut(true)
		time.Sleep(3 * time.Second)
		sessions, same := w.shown(n)
		require.Equal(t, both, sessions)
		require.Equal(t, version, same)
		link.cut(false)
		time.Sleep(3 * time.Second)
		sessions, same = w.shown(n)
		require.Equal(t, both, sessions)
		require.Equal(t, version, same)
		w.end(n, a, b)
	})
}

// TestHiding_NewOwner checks that a new owner hides no agent before its first stream, and shows hidden agents when they come back.
func TestHiding_NewOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		other := w.start("r2")
		var link, late network
		a, b, c := w.join(), w.join(link.configure), w.join(late.configure)
		link.cut(true)
		time.Sleep(1500 * time.Millisecond)
		sessions, _ := w.shown(n)
		require.Equal(t, []id.Session{a.ID(), c.ID()}, sessions, "b is hidden")
		late.cut(true)
		w.stop(n)
		w.waitFor("ownership", func() bool { return other.Owner() != nil })
		time.Sleep(3 * time.Second)
		sessions, _ = w.shown(other)
		require.Equal(t, []id.Session{a.ID(), c.ID()}, sessions, "c may be on its way")
		link.cut(false)
		w.waitFor("b is shown by the new owner", func() bool {
			sessions, _ = w.shown(other)
			return slices.Contains(sessions, b.ID())
		})
		b.read(func() { require.Zero(t, b.closed) })
		w.end(other, a, b, c)
	})
}

// TestMembership_RemembersZones: agents are told of zones that have lost their last agent.
func TestMembership_RemembersZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		a, b := w.join(), w.join(func(c *client.Config) { c.Zone = "b" })
		gone := func() (zones []string) {
			a.read(func() {
				for _, m := range a.gone {
					zones = append(zones, m.Zone)
				}
			})
			return slices.Clone(zones)
		}
		require.Empty(t, gone())
		require.NoError(t, b.Drain(t.Context()))
		synctest.Wait()
		require.Equal(t, []string{"b"}, gone())
		require.NoError(t, b.Goodbye(t.Context()))
		b.leave()
		synctest.Wait()
		require.Equal(t, []string{"b"}, gone())
		c := w.join(func(c *client.Config) { c.Zone = "b" })
		synctest.Wait()
		require.Empty(t, gone())
		w.end(n, a, c)
	})
}
