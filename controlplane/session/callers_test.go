package session_test

import (
	"context"
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
	"github.com/freshet-io/freshet/controlplane/session"
)

// waitsForRoom requires that an agent gets no session for 10 s and knows the reason.
func (a *agent) waitsForRoom(reason string) {
	a.w.t.Helper()
	time.Sleep(10 * time.Second) // the bubble's time
	select {
	case <-a.Opened():
		require.Fail(a.w.t, "the session is open")
	default:
	}
	require.Equal(a.w.t, codes.ResourceExhausted, status.Code(a.Fault()))
	require.ErrorContains(a.w.t, a.Fault(), reason)
}

// At the bound of sessions an agent waits until another one is gone. Open sessions go on, also on new streams.
func TestOpen_BoundOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits = session.Limits{Sessions: 4}
		n := w.start("r1")
		var lines network
		first := w.join(lines.configure)
		all := []*agent{first, w.join(), w.join(), w.join()}
		time.Sleep(time.Minute) // the bubble's time, so that sessions may be opened again
		more := w.agent()
		more.waitsForRoom("the virtual cluster has 4 agents, the limit")
		before := first.ID()
		lines.cut(false)
		w.waitFor("another stream", func() (again bool) {
			first.read(func() { again = first.welcomes > 1 })
			return again && first.Connected()
		})
		require.Equal(t, before, first.ID())
		require.NoError(t, all[1].Goodbye(t.Context()))
		more.opened()
		all[1] = more
		w.end(n, all...)
	})
}

// Sessions that were opened and closed at once count for a minute.
func TestOpen_SessionsAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits = session.Limits{Sessions: 2}
		n := w.start("r1")
		for range 2 {
			a := w.join()
			require.NoError(t, a.Goodbye(t.Context()))
			require.NoError(t, <-a.ended)
		}
		began := time.Now()
		more := w.agent()
		more.waitsForRoom("have opened 2 sessions in the last minute, the limit")
		more.opened()
		require.InDelta(t, 30, time.Since(began).Seconds(), 3)
		w.end(n, more)
	})
}

// Calls in progress are bounded before a session is open, and end without a Hello.
func TestCallers_BoundOfCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits = session.Limits{Sessions: 1}
		n := w.start("r1")
		w.owned(n)
		conn, err := grpc.NewClient("passthrough:///r1:7050", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return w.dial(ctx, address) }))
		require.NoError(t, err)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+agentKey)
		client := api.NewControlPlaneClient(conn)
		var silent []grpc.BidiStreamingClient[api.ToOwner, api.ToAgent]
		for range 4 {
			s, err := client.Session(ctx)
			require.NoError(t, err)
			silent = append(silent, s)
			synctest.Wait()
		}
		_, err = client.Locate(ctx, &api.LocateRequest{})
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		require.ErrorContains(t, err, "the agents of the virtual cluster have 4 calls in progress")
		s, err := client.Session(ctx)
		require.NoError(t, err)
		_, err = s.Recv()
		require.Equal(t, codes.ResourceExhausted, status.Code(err))
		for _, s := range silent {
			_, err := s.Recv()
			require.Equal(t, codes.InvalidArgument, status.Code(err), "no Hello in time")
		}
		_, err = client.Locate(ctx, &api.LocateRequest{})
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		a := w.join()
		w.end(n, a)
	})
}

// Calls above the rate take turns, and none fails.
func TestCallers_Rate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits = session.Limits{Sessions: 1}
		n := w.start("r1")
		w.owned(n)
		conn, err := grpc.NewClient("passthrough:///r1:7050", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return w.dial(ctx, address) }))
		require.NoError(t, err)
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+agentKey)
		began := time.Now()
		for range 16 + 40 {
			_, err = api.NewControlPlaneClient(conn).Locate(ctx, &api.LocateRequest{})
			require.NoError(t, err)
		}
		require.InDelta(t, 10, time.Since(began).Seconds(), 0.5, "16 calls at once, and then 4 a second")
		require.NoError(t, conn.Close())
		w.end(n)
	})
}
