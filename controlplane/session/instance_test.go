package session_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/freshet-io/freshet/controlplane/api"
)

// hello opens a stream with a replica and returns the owner's first item.
func (w *world) hello(n *node, hello *api.Hello) *api.OwnerItem {
	w.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+n.name+":7050", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return w.dial(ctx, address) }))
	require.NoError(w.t, err)
	defer conn.Close()
	ctx, cancel := context.WithCancel(metadata.AppendToOutgoingContext(w.t.Context(), "authorization", "Bearer "+agentKey))
	defer cancel()
	stream, err := api.NewControlPlaneClient(conn).Session(ctx)
	require.NoError(w.t, err)
	require.NoError(w.t, stream.Send(&api.ToOwner{Items: []*api.AgentItem{{Item: &api.AgentItem_Hello{Hello: hello}}}}))
	message, err := stream.Recv()
	require.NoError(w.t, err)
	require.NotEmpty(w.t, message.Items)
	return message.Items[0]
}

// A session goes on with the instance that opened it alone. Two agents under one session would commit under the same names.
func TestSession_IsNoOtherInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		a := w.agent()
		<-a.Opened()
		hello := &api.Hello{
			Protocol: api.Protocol, VirtualCluster: vcName, Instance: "another", Zone: "a", Endpoints: []*api.Endpoint{{Host: "agent", Port: 9092}},
			Session: uint32(a.ID()),
		}
		require.Equal(t, api.Refused_SESSION_CLOSED, w.hello(n, hello).GetRefused().GetReason())
		require.True(t, a.Connected())
		hello.Session = 0
		require.NotEqual(t, uint32(a.ID()), w.hello(n, hello).GetWelcome().GetSession())
		w.end(n, a)
	})
}
