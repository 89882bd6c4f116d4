package controlplane

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/keys"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/metrictest"
)

// TestStrangers_KeepNoAgentOut: connections without a known key make room for others, and close none on which a call had one.
func TestStrangers_KeepNoAgentOut(t *testing.T) {
	const most = 4
	s := newStrangers(most, zap.NewNop(), nil)
	socket, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	set := keys.NewSet()
	require.NoError(t, set.Replace("test", []keys.Entry{{Hash: accesskey.HashOf("key"), Kind: keys.Agent, VirtualCluster: "vc"}}))
	server := grpc.NewServer(append(session.ServerOptions(set, nil, zap.NewNop()), s.options()...)...)
	api.RegisterReplicasServer(server, replicaServer{replica: "r1", http: func() string { return "" }})
	served := make(chan error)
	go func() { served <- server.Serve(s.Listener(socket)) }()
	defer func() {
		server.Stop()
		require.NoError(t, <-served)
	}()

	var dials atomic.Int32
	connect := func() *grpc.ClientConn {
		c, err := grpc.NewClient("passthrough:///"+socket.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				dials.Add(1)
				return new(net.Dialer).DialContext(ctx, "tcp", address)
			}))
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	ask := func(c *grpc.ClientConn, key string) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
		_, err := api.NewReplicasClient(c).Clock(ctx, &api.ClockRequest{}, grpc.WaitForReady(true))
		return err
	}
	silent := func() (end func() error) {
		c, err := new(net.Dialer).DialContext(t.Context(), "tcp", socket.Addr().String())
		require.NoError(t, err)
		return c.Close
	}
	require.Equal(t, codes.Unauthenticated, status.Code(ask(connect(), "wrong")))
	require.Equal(t, 1, s.Open())
	agent := connect()
	require.NoError(t, ask(agent, "key"))
	require.Equal(t, 1, s.Open(), "the agent's connection is not bounded any more")
	for range 10 * most {
		end := silent()
		defer func() { _ = end() }() // before the server stops, which waits for handshakes
	}
	require.Eventually(t, func() bool { return s.Open() == most }, time.Minute, time.Millisecond)
	dials.Store(0)
	require.NoError(t, ask(agent, "key"))
	require.Zero(t, dials.Load(), "its connection stayed")
	require.NoError(t, ask(connect(), "key"), "a new agent is served")
	require.LessOrEqual(t, s.Open(), most)
}

func TestMetrics_Golden(t *testing.T) {
	r := metrictest.NewRegistry()
	newStrangers(1, zap.NewNop(), r)
	r.MustRegister(clusterStates{&clusters{}})
	newContacts(nil, nil, nil, r)
	newEtcdSpace(nil, zap.NewNop(), r)
	newHeapRoom(r)
	r.Golden(t)
}
