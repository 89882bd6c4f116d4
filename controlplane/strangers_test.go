package controlplane

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/metrictest"
)

// guarded is a gRPC server with bounds of connections. Each virtual cluster has its name as its agent key.
type guarded struct {
	t       *testing.T
	bound   strangers
	address string
	dials   atomic.Int32
}

// guard starts a server of virtual clusters. most bounds the connections without a known key, and each those of a virtual cluster.
func guard(t *testing.T, most, each int, virtualClusters ...string) *guarded {
	t.Helper()
	socket, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &guarded{t: t, bound: newStrangers(most, zap.NewNop(), nil), address: socket.Addr().String()}
	set := keys.NewSet()
	var entries []keys.Entry
	for _, name := range virtualClusters {
		entries = append(entries, keys.Entry{Hash: accesskey.HashOf(name), Kind: keys.Agent, VirtualCluster: name})
	}
	require.NoError(t, set.Replace("test", entries))
	connections := session.NewConnections(func(string) int { return each }, zap.NewNop(), nil)
	server := grpc.NewServer(append(session.ServerOptions(set, nil, zap.NewNop()), g.bound.options(connections)...)...)
	api.RegisterReplicasServer(server, replicaServer{replica: "r1", http: func() string { return "" }})
	served := make(chan error)
	go func() { served <- server.Serve(g.bound.Listener(socket)) }()
	t.Cleanup(func() {
		server.Stop()
		require.NoError(t, <-served)
	})
	return g
}

func (g *guarded) connect() *grpc.ClientConn {
	g.t.Helper()
	c, err := grpc.NewClient("passthrough:///"+g.address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			g.dials.Add(1)
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}))
	require.NoError(g.t, err)
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (g *guarded) ask(c *grpc.ClientConn, key string) error {
	ctx, cancel := context.WithTimeout(g.t.Context(), time.Minute)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	_, err := api.NewReplicasClient(c).Clock(ctx, &api.ClockRequest{}, grpc.WaitForReady(true))
	return err
}

// TestStrangers_KeepNoAgentOut: connections without a known key make room for others, and close none on which a call had one.
func TestStrangers_KeepNoAgentOut(t *testing.T) {
	const most = 4
	g := guard(t, most, 100, "vc")
	s := g.bound
	silent := func() (end func() error) {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", g.address)
		require.NoError(t, err)
		return c.Close
	}
	require.Equal(t, codes.Unauthenticated, status.Code(g.ask(g.connect(), "wrong")))
	require.Equal(t, 1, s.Open())
	agent := g.connect()
	require.NoError(t, g.ask(agent, "vc"))
	require.Equal(t, 1, s.Open(), "the agent's connection is not bounded any more")
	for range 10 * most {
		end := silent()
		defer func() { _ = end() }() // before the server stops, which waits for handshakes
	}
	require.Eventually(t, func() bool { return s.Open() == most }, time.Minute, time.Millisecond)
	g.dials.Store(0)
	require.NoError(t, g.ask(agent, "vc"))
	require.Zero(t, g.dials.Load(), "its connection stayed")
	require.NoError(t, g.ask(g.connect(), "vc"), "a new agent is served")
	require.LessOrEqual(t, s.Open(), most)
}

// TestConnections_OfAVirtualCluster: beyond the bound of a virtual cluster the newest connection is refused and closed. The earlier ones and
// those of other virtual clusters stay.
func TestConnections_OfAVirtualCluster(t *testing.T) {
	const each = 3
	g := guard(t, maxStrangers, each, "loud", "quiet")
	var all []*grpc.ClientConn
	for range each {
		all = append(all, g.connect())
		require.NoError(t, g.ask(all[len(all)-1], "loud"))
	}
	more := g.connect()
	var refused errgroup.Group
	for range 10 { // all calls of a connection are refused
		refused.Go(func() error {
			err := g.ask(more, "loud")
			if status.Code(err) != codes.ResourceExhausted {
				return fmt.Errorf("not refused: %w", err)
			}
			return nil
		})
	}
	require.NoError(t, refused.Wait())
	require.ErrorContains(t, g.ask(more, "loud"), "the agents of the virtual cluster have 3 connections, the limit of this replica")
	require.Equal(t, 1, g.bound.Open(), "it stays among the connections without a known key")
	require.Eventually(t, func() bool { return more.GetState() == connectivity.Idle }, time.Minute, time.Millisecond, "closed")
	require.Eventually(t, func() bool { return g.bound.Open() == 0 }, time.Minute, time.Millisecond)
	g.dials.Store(0)
	for _, c := range all {
		require.NoError(t, g.ask(c, "loud"))
		require.NoError(t, g.ask(c, "quiet"), "counts once")
	}
	require.Zero(t, g.dials.Load(), "the earlier ones stay")
	require.NoError(t, g.ask(g.connect(), "quiet"))

	require.NoError(t, all[0].Close())
	require.Eventually(t, func() bool { return g.ask(g.connect(), "loud") == nil }, time.Minute, time.Millisecond, "a closed one makes room")
}

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	newStrangers(1, zap.NewNop(), r)
	session.NewConnections(nil, zap.NewNop(), r)
	r.MustRegister(clusterStates{&clusters{}})
	newContacts(nil, nil, nil, r)
	newEtcdSpace(nil, alone, zap.NewNop(), r)
	newHeapRoom(r)
	r.Golden(t)
}
