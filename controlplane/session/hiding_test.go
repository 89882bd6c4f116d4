package session_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// owned waits until a replica owns the cluster.
func (w *world) owned(n *node) {
	w.t.Helper()
	w.waitFor("ownership", func() bool { return n.Owner() != nil })
}

// join is agent, with its session open.
func (w *world) join(adjust ...func(*client.Config)) *agent {
	w.t.Helper()
	a := w.agent(adjust...)
	a.opened()
	return a
}

// shown gives the sessions in the membership, and its version.
func (w *world) shown(n *node) (sessions []id.Session, version uint64) {
	w.t.Helper()
	_, err := n.Owner().Read(func(s *metadata.State) {
		for info := range s.Sessions() {
			if info.Shown() {
				sessions = append(sessions, info.ID)
			}
		}
		version = s.MembershipVersion()
	})
	require.NoError(w.t, err)
	return sessions, version
}

// closedSession tells whether a session is closed.
func (w *world) closedSession(n *node, session id.Session) (closed bool) {
	w.t.Helper()
	_, err := n.Owner().Read(func(s *metadata.State) {
		info, _ := s.Session(session)
		closed = info.Closed
	})
	require.NoError(w.t, err)
	return closed
}

// network is what agents reach the owner by.
type network struct {
	mu    sync.Mutex
	down  bool
	conns []net.Conn
}

func (n *network) configure(cfg *client.Config) {
	dial := cfg.Dial
	cfg.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.down {
			return nil, errors.New("network is down")
		}
		conn, err := dial(ctx, address)
		if err == nil {
			n.conns = append(n.conns, conn)
		}
		return conn, err
	}
}

// cut closes the connections and lets no others come about while it is down.
func (n *network) cut(down bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.down = down
	for _, c := range n.conns {
		_ = c.Close()
	}
	n.conns = nil
}

// TestHiding_KilledAgent: Metadata shows an agent that is killed for little more than a second, while its session lives on
// until it expires.
func TestHiding_KilledAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		w.owned(n)
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
		time.Sleep(6 * time.Second)
		require.True(t, w.closedSession(n, gone))
		_, closed := w.shown(n)
		require.Equal(t, after, closed, "it was out of the membership before")
		a.leave()
		w.stop(n)
	})
}

// TestHiding_CutOffAgentComesBack: an agent that was cut off and hidden is shown again when it is back, under the same
// session and node ids, and its commits took effect once. One that is back within a second is not hidden.
func TestHiding_CutOffAgentComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		w.owned(n)
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
		a.leave()
		b.leave()
		w.stop(n)
	})
}

// TestHiding_NobodyLeft: an owner that has lost all agents at once hides none of them.
func TestHiding_NobodyLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		w.owned(n)
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
		a.leave()
		b.leave()
		w.stop(n)
	})
}

// TestHiding_NewOwner: an owner that has just taken over hides nobody whom it has not met, whoever else is there, and
// shows those whom the owner before had hidden when they come.
func TestHiding_NewOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		w.owned(n)
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
		for _, agent := range []*agent{a, b, c} {
			agent.leave()
		}
		w.stop(other)
	})
}

// TestHiding_NotBeforeItsVersion: replicas of an earlier version could not read the command.
func TestHiding_NotBeforeItsVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var supported atomic.Uint32
		supported.Store(metadata.HidingVersion - 1)
		w := newWorld(t)
		w.version, w.limits.SessionTimeout = supported.Load, time.Minute
		n := w.start("r1")
		w.owned(n)
		a, b := w.join(), w.join()
		both := []id.Session{a.ID(), b.ID()}
		b.leave()
		time.Sleep(3 * time.Second)
		sessions, _ := w.shown(n)
		require.Equal(t, both, sessions)
		supported.Store(metadata.HidingVersion)
		w.waitFor("b is hidden", func() bool {
			sessions, _ = w.shown(n)
			return len(sessions) == 1
		})
		require.False(t, w.closedSession(n, both[1]))
		a.leave()
		w.stop(n)
	})
}

// TestMembership_RemembersZones: agents are told of zones that have lost their last agent.
func TestMembership_RemembersZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		w.owned(n)
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
		a.leave()
		c.leave()
		w.stop(n)
	})
}
