package session_test

import (
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/id"
)

// greeted opens a session without the client, for messages that it would not send.
func (w *world) greeted(instance string) grpc.BidiStreamingClient[api.ToOwner, api.ToAgent] {
	w.t.Helper()
	conn, err := grpc.NewClient("passthrough:///r1:7050", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(128<<20)),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return w.dial(ctx, address) }))
	require.NoError(w.t, err)
	w.t.Cleanup(func() {
		conn.Close()
		time.Sleep(time.Second) // the bubble's time, until slow writes have ended
	})
	stream, err := api.NewControlPlaneClient(conn).Session(metadata.AppendToOutgoingContext(w.t.Context(), "authorization", "Bearer "+agentKey))
	require.NoError(w.t, err)
	require.NoError(w.t, stream.Send(&api.ToOwner{Items: []*api.AgentItem{{Item: &api.AgentItem_Hello{Hello: &api.Hello{
		Protocol: api.Protocol, Instance: instance, Zone: "a", Endpoints: []*api.Endpoint{{Host: instance, Port: 9092}},
	}}}}}))
	m, err := stream.Recv()
	require.NoError(w.t, err)
	require.NotNil(w.t, m.Items[0].GetWelcome(), "%v", m)
	return stream
}

// forwarding is a message with a request of n bytes.
func forwarding(n int) *api.ToOwner {
	return &api.ToOwner{Items: []*api.AgentItem{{Item: &api.AgentItem_Forward{Forward: &api.Forward{Request: 1, ApiKey: 3, ApiVersion: 12, Body: make([]byte, n)}}}}}
}

// ended reads a stream to its end.
func ended(stream grpc.BidiStreamingClient[api.ToOwner, api.ToAgent]) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

// A large message that does not arrive holds its place for no longer than 3 s. Then other large ones of the virtual cluster go on, and small
// ones went on meanwhile.
func TestReceiver_EndsATrickle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		trickle := w.greeted("trickle")
		w.slowConnections(100 * time.Millisecond)
		began := time.Now()
		go trickle.Send(forwarding(48 << 20)) //nolint:errcheck // the stream ends
		time.Sleep(500 * time.Millisecond)    // the bubble's time
		a := w.join()
		_, err := a.submit(plain(tp))
		require.NoError(t, err)
		require.Less(t, time.Since(began), 2*time.Second)
		body, err := a.Forward(t.Context(), client.Forward{Key: 3, Version: 12, Body: make([]byte, 20<<20)})
		require.Error(t, err, "%v", body) // zeros are no request
		require.Greater(t, time.Since(began), 3*time.Second)
		require.Less(t, time.Since(began), 5*time.Second)
		err = ended(trickle)
		require.Equal(t, codes.Aborted, status.Code(err))
		require.ErrorContains(t, err, "a message took too long to arrive")
		w.end(n, a)
	})
}

// An agent whose message waits for others keeps its stream and its session, for longer than both take to give up a silent agent.
func TestReceiver_WaitIsASignOfLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		const slow = 4
		var trickles []grpc.BidiStreamingClient[api.ToOwner, api.ToAgent]
		for i := range slow {
			trickles = append(trickles, w.greeted(fmt.Sprint("trickle-", i)))
		}
		w.slowConnections(100 * time.Millisecond)
		began := time.Now()
		for _, s := range trickles {
			go s.Send(forwarding(48 << 20)) //nolint:errcheck // the stream ends
		}
		time.Sleep(500 * time.Millisecond) // the bubble's time
		a := w.join()
		_, err := a.Forward(t.Context(), client.Forward{Key: 3, Version: 12, Body: make([]byte, 20<<20)})
		require.Error(t, err) // zeros are no request
		require.Greater(t, time.Since(began), slow*3*time.Second)
		a.read(func() {
			require.Equal(t, 1, a.welcomes)
			require.Zero(t, a.closed)
		})
		w.end(n, a)
	})
}

// Messages beyond the bound end their stream alone.
func TestReceiver_RefusesWhatIsTooLarge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		a := w.join()
		stream := w.greeted("large")
		go stream.Send(forwarding(64 << 20)) //nolint:errcheck // the stream ends
		require.ErrorContains(t, ended(stream), "the limit is 67108864")
		require.True(t, a.Connected())
		w.end(n, a)
	})
}
