package peer

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/metadata/id"
)

// idle opens a connection to an agent, asks for a unit, and keeps the connection.
func (c *cluster) idle(asker, asked *agent, b id.Bundle) net.Conn {
	c.t.Helper()
	conn, r := c.dial(asker, asked, b)
	require.NoError(c.t, r.Write(conn))
	response, err := http.ReadResponse(bufio.NewReader(conn), r)
	require.NoError(c.t, err)
	_, err = io.Copy(io.Discard, response.Body)
	require.NoError(c.t, err)
	_ = response.Body.Close()
	return conn
}

// dial opens a connection to an agent. It returns a request for a unit too.
func (c *cluster) dial(asker, asked *agent, b id.Bundle) (net.Conn, *http.Request) {
	c.t.Helper()
	conn, err := new(net.Dialer).DialContext(c.t.Context(), "tcp", asked.address)
	require.NoError(c.t, err)
	c.t.Cleanup(func() { _ = conn.Close() })
	require.NoError(c.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	order := ask{Ask: &cache.Ask{Bundle: b, Units: []cache.Unit{{}}}, units: []int{0}, read: true}
	r, err := asker.asks.newRequest(c.t.Context(), peer{asked.session, asked.address}, order, testSecret)
	require.NoError(c.t, err)
	return conn, r
}

// TestServer_IdleConnectionsMakeWay: in a zone of 64 askers that keep many connections, an agent still answers a new asker,
// and still takes streams.
func TestServer_IdleConnectionsMakeWay(t *testing.T) {
	const askers, each, limit = 64, 4, 100
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, server: func(cfg *ServerConfig) {
		cfg.Connections = limit
		cfg.Upgrades = map[string]Upgrade{"p": echo}
	}}
	asked, asker := c.start(testZone), c.start(testZone)
	made, extents := c.bundle(c.owned(asked, asker, written(900, 1)), 1, 100)
	var conns []net.Conn
	for range askers * each {
		conns = append(conns, c.idle(asker, asked, made.ID))
	}
	c.read(asker, made, &extents[0])
	asker.await(t, 1, "freshet_peer_requests_total", askedOK)
	streams := make([]net.Conn, 2*limit)
	for i := range streams {
		streams[i] = c.stream(asker, asked)
	}
	c.idle(asker, asked, made.ID)
	for _, conn := range streams {
		_ = conn.Close()
	}
	require.LessOrEqual(t, asked.server.connections.Open(), limit)
	_, err := conns[0].Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF, "the connection that is idle for the longest is closed")
}

// echo is a stream that sends back what it gets.
func echo(conn net.Conn, in *bufio.Reader, _ id.Session) {
	_, _ = io.Copy(conn, in)
	_ = conn.Close()
}

// stream opens a stream to an agent, and sees that it works.
func (c *cluster) stream(asker, asked *agent) net.Conn {
	c.t.Helper()
	conn, in, err := asker.asks.Stream(c.t.Context(), asked.session, "p")
	require.NoError(c.t, err)
	_, err = conn.Write([]byte("x"))
	require.NoError(c.t, err)
	_, err = in.ReadByte()
	require.NoError(c.t, err)
	return conn
}

// TestServer_ReadsLeaveRoomForStreams: askers at the bound of requests, with further ones refused, keep no stream out.
func TestServer_ReadsLeaveRoomForStreams(t *testing.T) {
	const requests = 2
	held := make(chan struct{})
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, server: func(cfg *ServerConfig) {
		cfg.Requests, cfg.Connections = requests, requests+1
		cfg.Upgrades = map[string]Upgrade{"p": echo}
	}}
	c.bucket.hold = func(ctx context.Context) error {
		select {
		case <-held:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	asked, asker := c.start(testZone), c.start(testZone)
	made, _ := c.bundle(c.owned(asked, asker, written(900, 1)), 1, 100)
	var reading sync.WaitGroup
	for range requests {
		reading.Go(func() { c.idle(asker, asked, made.ID) })
	}
	asked.await(t, requests, "freshet_peer_serving")
	for range 3 * requests {
		c.idle(asker, asked, made.ID) // refused
	}
	for range 3 * requests {
		_ = c.stream(asker, asked).Close()
	}
	close(held)
	reading.Wait()
}

// TestServer_StrangersMakeWay: connections without a request, and connections without the secret, keep no agent out.
func TestServer_StrangersMakeWay(t *testing.T) {
	const limit = 10
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, server: func(cfg *ServerConfig) { cfg.Connections = limit }}
	asked, asker := c.start(testZone), c.start(testZone)
	made, extents := c.bundle(c.owned(asked, asker, written(900, 1)), 1, 100)
	kept := c.idle(asker, asked, made.ID)
	for i := range 5 * limit {
		conn, r := c.dial(asker, asked, made.ID)
		r.Header.Del("Authorization")
		if i%2 == 0 {
			_ = r.Write(conn) // the server may have closed it
		}
	}
	c.read(asker, made, &extents[0])
	asker.await(t, 1, "freshet_peer_requests_total", askedOK)
	require.LessOrEqual(t, asked.server.connections.Open(), limit)
	require.NoError(t, kept.SetReadDeadline(time.Now().Add(time.Millisecond)))
	_, err := kept.Read(make([]byte, 1))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "an agent's connection stays")
}

// TestZone_KeepsFewIdleConnections: many requests at once leave few connections to an agent behind.
func TestZone_KeepsFewIdleConnections(t *testing.T) {
	var open atomic.Int32
	c := &cluster{t: t, bucket: &counted{Bucket: newBucket()}, next: 1, asks: func(cfg *Config) {
		cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			open.Add(1)
			return &closing{Conn: conn, closed: sync.OnceFunc(func() { open.Add(-1) })}, nil
		}
	}}
	const readers = 32
	held := make(chan struct{})
	c.bucket.hold = func(context.Context) error {
		<-held
		return nil
	}
	asked, asker := c.start(testZone), c.start(testZone)
	b := written(900, 1)
	var all sync.WaitGroup
	for range readers {
		b = c.owned(asked, asker, b+1)
		made, extents := c.bundle(b, 1, 100)
		all.Go(func() { c.read(asker, made, &extents[0]) })
	}
	asked.await(t, readers, "freshet_peer_serving")
	require.Equal(t, int32(readers), open.Load())
	close(held)
	all.Wait()
	c.awaitRequests(readers)
	require.Eventually(t, func() bool { return open.Load() <= maxIdlePerAgent }, time.Minute, time.Millisecond)
	require.Positive(t, open.Load())
}

// closing is a connection that calls a function when it is closed.
type closing struct {
	net.Conn
	closed func()
}

func (c *closing) Close() error {
	c.closed()
	return c.Conn.Close()
}

// TestServerConfig_ConnectionsOfTheLargestZone: the bound has room for what a zone of maxAgents keeps idle and reads at once.
func TestServerConfig_ConnectionsOfTheLargestZone(t *testing.T) {
	var cfg ServerConfig
	cfg.ApplyDefaults()
	reads := cfg.Requests + cfg.Requests/2
	require.GreaterOrEqual(t, cfg.Connections, maxAgents*maxIdlePerAgent+reads)
	require.Greater(t, cfg.Connections, 2*reads, "reads never fill it")
}
