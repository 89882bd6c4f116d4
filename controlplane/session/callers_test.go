package session_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
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

// neverOpens starts an agent that the owner refuses.
func (w *world) neverOpens(reason string, adjust func(*client.Config)) {
	w.t.Helper()
	a := w.agent(adjust)
	time.Sleep(10 * time.Second) // the bubble's time
	select {
	case <-a.Opened():
		require.Fail(w.t, "the session is open")
	default:
	}
	require.ErrorContains(w.t, a.Fault(), reason)
	a.leave()
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

// A text of Hello beyond its bound is refused.
func TestOpen_BoundOfTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		long := func(length int) func(*client.Config) {
			return func(c *client.Config) { c.Version = strings.Repeat("v", length) }
		}
		fits := w.join(long(300))
		w.neverOpens("a text of 301 bytes in Hello, the limit is 300", long(301))
		listeners := func(hosts int) func(*client.Config) {
			return func(c *client.Config) {
				c.Endpoints = nil
				for range hosts {
					c.Endpoints = append(c.Endpoints, &api.Endpoint{Host: strings.Repeat("h", 255), Port: 9092})
				}
			}
		}
		most := w.join(listeners(31))
		w.neverOpens("in Hello, the limit is 8192", listeners(33))
		w.end(n, fits, most)
	})
}

// The state remembers the zones of ended sessions for a day, so the number of zones is bounded.
func TestOpen_BoundOfZones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		zone := func(i int) func(*client.Config) {
			return func(c *client.Config) { c.Zone = fmt.Sprint("zone-", i) }
		}
		for i := range 64 {
			a := w.join(zone(i))
			require.NoError(t, a.Goodbye(t.Context()))
			require.NoError(t, <-a.ended)
		}
		w.neverOpens("agents in 64 zones within a day, the limit", zone(64))
		w.end(n, w.join(zone(7)))
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

// Calls in progress are bounded before a session is open, and end without a Hello. So are the calls that wait for their refusal.
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
		began := time.Now()
		var times [6]time.Duration
		var calls sync.WaitGroup
		for i := range times {
			calls.Go(func() {
				_, err := client.Locate(ctx, &api.LocateRequest{})
				times[i] = time.Since(began)
				assert.Equal(t, codes.ResourceExhausted, status.Code(err))
			})
		}
		calls.Wait()
		slices.Sort(times[:])
		require.Zero(t, times[1], "beyond the calls that may wait for their refusal")
		require.Equal(t, time.Second, times[2], "the others wait")
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
