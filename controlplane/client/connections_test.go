package client

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/freshet-io/freshet/controlplane/api"
)

// replicas are control planes that are reached whatever the address, and name each other and the owner as they are told.
type replicas struct {
	api.UnimplementedControlPlaneServer
	listener *bufconn.Listener

	mu    sync.Mutex
	named api.LocateResponse // guarded by mu
	open  map[string]int     // connections by address; guarded by mu
}

func startReplicas(t *testing.T) *replicas {
	t.Helper()
	r := &replicas{listener: bufconn.Listen(1 << 16), open: map[string]int{}}
	server := grpc.NewServer()
	api.RegisterControlPlaneServer(server, r)
	served := make(chan error, 1)
	go func() { served <- server.Serve(r.listener) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	return r
}

func (r *replicas) Locate(context.Context, *api.LocateRequest) (*api.LocateResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &api.LocateResponse{Replicas: r.named.Replicas, OwnerAddress: r.named.OwnerAddress}, nil
}

func (r *replicas) name(owner string, all ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.named.OwnerAddress, r.named.Replicas = owner, all
}

func (r *replicas) dial(ctx context.Context, address string) (net.Conn, error) {
	conn, err := r.listener.DialContext(ctx)
	if err != nil {
		return nil, err
	}
	r.count(address, 1)
	return &countedConn{Conn: conn, closed: sync.OnceFunc(func() { r.count(address, -1) })}, nil
}

func (r *replicas) count(address string, by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.open[address] += by
}

// connected are the addresses that there are connections to, sorted.
func (r *replicas) connected() (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for address, n := range r.open {
		if n > 0 {
			all = append(all, address)
		}
	}
	slices.Sort(all)
	return all
}

type countedConn struct {
	net.Conn
	closed func()
}

func (c *countedConn) Close() error {
	c.closed()
	return c.Conn.Close()
}

// Connections to replicas that no answer names any more are closed, but for configured ones and the stream's.
func TestConnections_CloseThoseToReplicasThatAreGone(t *testing.T) {
	r := startReplicas(t)
	c := newConnections(Config{Replicas: []string{"configured"}, DialTimeout: time.Minute, Dial: r.dial})
	defer c.close()
	look := func(want ...string) {
		t.Helper()
		require.Eventually(t, func() bool {
			_, err := c.owner(t.Context())
			return err == nil && slices.Equal(want, r.connected())
		}, time.Minute, time.Millisecond, "connections to %v", want)
	}
	r.name("a", "a", "b")
	look("a", "b", "configured")
	c.streams("a")
	r.name("c", "c", "d")
	look("a", "c", "configured", "d")
	c.streams("c")
	look("c", "configured", "d")
	r.name("c")
	look("c", "configured", "d") // an answer that names none is no news
	c.streams("")
	r.name("e", "d") // an owner that is not registered yet
	look("configured", "d")
	_ = c.client("e")
	c.learn(&api.LocateResponse{Replicas: []string{"d"}, OwnerAddress: "e"})
	c.mu.Lock()
	defer c.mu.Unlock()
	require.Contains(t, c.mu.conns, "e", "the stream is about to begin")
}

// TestConnections_IdleOnesAreClosed: an agent keeps no connection to replicas that it does not call.
func TestConnections_IdleOnesAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := startReplicas(t)
		c := newConnections(Config{Replicas: []string{"a", "b"}, DialTimeout: time.Minute, Dial: r.dial})
		defer c.close()
		r.name("a", "a", "b")
		_, err := c.owner(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, []string{"a", "b"}, r.connected())
		time.Sleep(3 * idleConnection) // sleeps: virtual time of the bubble
		require.Empty(t, r.connected())
		_, err = c.owner(t.Context())
		require.NoError(t, err, "it connects again")
	})
}
