package session_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// newOwnedWorld is a world of one replica, which owns the cluster.
func newOwnedWorld(t *testing.T) (*world, *node) {
	t.Helper()
	w := newWorld(t)
	n := w.start("r1")
	w.owned(n)
	return w, n
}

// end ends the agents, then the replica.
func (w *world) end(n *node, agents ...*agent) {
	for _, a := range agents {
		a.leave()
	}
	w.stop(n)
}

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
