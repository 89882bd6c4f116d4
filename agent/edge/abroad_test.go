package edge

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// closedWithin reports whether a connection is closed within d.
func closedWithin(t *testing.T, c net.Conn, d time.Duration) bool {
	t.Helper()
	if c.SetReadDeadline(time.Now().Add(d)) != nil {
		return true // a pipe that the server has closed
	}
	_, err := c.Read(make([]byte, 1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	require.ErrorIs(t, err, io.EOF)
	return true
}

// TestServer_ClosesIdleClientsAbroad: connections of a client abroad are closed once they are idle, all that it has, and not again and
// again if the client reconnects. Connections with a parked request stay, and so do those that have sent no request.
func TestServer_ClosesIdleClientsAbroad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var isAbroad atomic.Bool // the sweep reads it
		parked := make(chan struct{})
		handler := handlerFunc(func(_ context.Context, req *Request) func() Reply {
			return func() Reply {
				if req.Key == fetch {
					<-parked
				}
				return Reply{}
			}
		})
		_, p, stop := start(t, Config{Handler: handler, Abroad: func(client *Client, clientID string) bool {
			require.Equal(t, "test", client.Listener)
			require.Equal(t, "me", clientID)
			return isAbroad.Load()
		}})
		defer stop()
		connect := func(key int16) net.Conn {
			c := p.dial()
			write(t, c, request(key, 1, ""))
			if key != fetch {
				_, err := io.ReadFull(c, make([]byte, 8))
				require.NoError(t, err)
			}
			return c
		}
		busy, first, second := connect(fetch), connect(metadata), connect(metadata)
		require.False(t, closedWithin(t, first, time.Minute), "at home")

		isAbroad.Store(true)
		require.True(t, closedWithin(t, first, 2*sweepInterval))
		require.True(t, closedWithin(t, second, 2*sweepInterval))
		for _, pause := range []time.Duration{2, 4, 8, 16, 32, 60, 60} {
			began := time.Now()
			require.True(t, closedWithin(t, connect(metadata), 2*maxAbroadPause))
			require.InDelta(t, pause*time.Second, time.Since(began), float64(2*sweepInterval))
		}
		require.False(t, closedWithin(t, busy, time.Minute))
		silent := p.dial()
		defer silent.Close()
		require.False(t, closedWithin(t, silent, 10*sweepInterval))

		close(parked)
		require.NoError(t, busy.SetReadDeadline(time.Time{}))
		_, err := io.ReadFull(busy, make([]byte, 8))
		require.NoError(t, err)
		require.True(t, closedWithin(t, busy, 3*sweepInterval))
	})
}

// A connection from before the client's last close is closed, and the one that the client has made since keeps its pause.
func TestServer_OlderConnectionsAbroadRestartNoPause(t *testing.T) {
	now := time.Now()
	s := &Server{cfg: Config{Abroad: func(*Client, string) bool { return true }}}
	connected := func(ago time.Duration) *conn {
		c := &conn{server: s, client: &Client{}, queue: newQueue(1, 1), accepted: now.Add(-ago), stopping: make(chan struct{})}
		c.clientID.Store(new(string))
		c.lastRead.Store(now.Add(-time.Minute).UnixNano())
		return c
	}
	require.True(t, s.abroad.shouldClose(connected(time.Hour), now.Add(-minAbroadPause)))
	reconnected := connected(minAbroadPause - time.Millisecond)
	require.True(t, s.abroad.shouldClose(connected(time.Hour), now), "it had a request until now")
	require.True(t, s.abroad.shouldClose(reconnected, now), "its pause is over")
	require.Equal(t, 2*minAbroadPause, s.abroad.closed[clientAtPort(&Client{}, "")].pause)
}

// TestServer_ForgetsClientsAbroad: what is remembered is bounded, and forgotten.
func TestServer_ForgetsClientsAbroad(t *testing.T) {
	now := time.Now()
	s := &Server{cfg: Config{Abroad: func(*Client, string) bool { return true }}}
	connected := func(id string, at time.Time) *conn {
		c := &conn{server: s, client: &Client{}, queue: newQueue(1, 1), accepted: at, stopping: make(chan struct{})}
		c.clientID.Store(&id)
		c.lastRead.Store(at.UnixNano())
		return c
	}
	for i := range maxAbroad {
		require.True(t, s.abroad.shouldClose(connected(string(rune(i+1)), now.Add(-time.Minute)), now))
	}
	require.False(t, s.abroad.shouldClose(connected("one more", now.Add(-time.Minute)), now))
	s.abroad.forget(now.Add(2 * maxAbroadPause))
	require.Empty(t, s.abroad.closed)
	require.True(t, s.abroad.shouldClose(connected("one more", now.Add(-time.Minute)), now))
}
