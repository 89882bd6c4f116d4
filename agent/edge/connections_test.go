package edge

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
)

// dialFrom dials from a loopback address.
func dialFrom(t *testing.T, addr, from string) net.Conn {
	t.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	c, err := d.DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

// The addresses of clients at work, of one with too many connections, and of a client that comes later.
const (
	workers = "127.0.0.1"
	crowd   = "127.0.0.2"
	other   = "127.0.0.3"
)

// onlyLinux skips a test that needs several loopback addresses.
func onlyLinux(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("other systems have one loopback address by default")
	}
}

// TestServer_SilentConnectionsKeepNoClientOut: ten times as many silent connections of one address as the bound allows close
// no connection of clients at work, and another address is served. The address of the clients at work may be the same.
func TestServer_SilentConnectionsKeepNoClientOut(t *testing.T) {
	onlyLinux(t)
	for name, from := range map[string]string{"of another address": crowd, "of the same address": workers} {
		t.Run(name, func(t *testing.T) { silentConnections(t, from) })
	}
}

func silentConnections(t *testing.T, from string) {
	t.Helper()
	const bound = 200
	_, addr := startTCP(t, Config{Handler: echo, MaxConnections: bound})
	working := make([]net.Conn, bound/2)
	for i := range working {
		working[i] = dialFrom(t, addr, workers)
	}
	for i := range 10 * bound {
		dialFrom(t, addr, from)
		if i%100 > 0 {
			continue
		}
		for _, c := range working {
			write(t, c, request(metadata, int32(i), "work"))
			requireResponse(t, c, int32(i), "work")
		}
	}
	c := dialFrom(t, addr, other)
	write(t, c, request(metadata, 1, "other"))
	requireResponse(t, c, 1, "other")
}

// TestServer_IdleConnectionsKeepNoClientOut: connections of one address that sent a request each and are idle now make room,
// before those of addresses with fewer connections.
func TestServer_IdleConnectionsKeepNoClientOut(t *testing.T) {
	onlyLinux(t)
	const bound = 60
	s, addr := startTCP(t, Config{Handler: echo, MaxConnections: bound})
	working := make([]net.Conn, bound/3)
	for i := range working {
		working[i] = dialFrom(t, addr, workers)
		write(t, working[i], request(metadata, 1, "work"))
		requireResponse(t, working[i], 1, "work")
	}
	first := dialFrom(t, addr, crowd)
	for i, c := 0, first; i < 5*bound; i, c = i+1, dialFrom(t, addr, crowd) {
		write(t, c, request(metadata, 1, "once"))
		requireResponse(t, c, 1, "once")
	}
	requireClosed(t, first)
	c := dialFrom(t, addr, other)
	write(t, c, request(metadata, 1, "other"))
	requireResponse(t, c, 1, "other")
	for _, c := range working {
		write(t, c, request(metadata, 2, "work"))
		requireResponse(t, c, 2, "work")
	}
	require.LessOrEqual(t, s.limit.Open(), bound)
}

// TestServer_RequestsInProgressKeepTheirConnections: at the bound a new connection is refused while each other one has a
// request in progress, and takes the place of one without.
func TestServer_RequestsInProgressKeepTheirConnections(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	held, started := make(chan struct{}), make(chan struct{}, 2)
	s, addr := startTCP(t, Config{MaxConnections: 2, Log: zap.New(core), Handler: handlerFunc(func(context.Context, *Request) func() Reply {
		started <- struct{}{}
		return func() Reply { <-held; return Reply{Head: []byte("done")} }
	})})
	first, second := dial(t, addr), dial(t, addr)
	for _, c := range []net.Conn{first, second} {
		write(t, c, request(metadata, 1, ""))
		<-started
	}
	requireClosed(t, dial(t, addr))
	require.Equal(t, 1, logs.Len())
	line := logs.All()[0].ContextMap()
	require.Equal(t, "total", line["reason"])
	require.Equal(t, "--max-connections", line["setting"])
	require.Equal(t, "127.0.0.1", line["address"])

	held <- struct{}{}
	held <- struct{}{}
	requireResponse(t, first, 1, "done")
	requireResponse(t, second, 1, "done")
	require.Eventually(t, func() bool { return s.limit.Idle() == 2 }, time.Minute, time.Millisecond)
	write(t, first, request(metadata, 2, ""))
	<-started
	third := dial(t, addr)
	write(t, third, request(metadata, 1, ""))
	<-started
	close(held)
	requireResponse(t, first, 2, "done")
	requireResponse(t, third, 1, "done")
	requireClosed(t, second)
	require.Eventually(t, func() bool { return testutil.ToFloat64(s.m.closed[closeEvicted]) == 1 }, time.Minute, time.Millisecond)
}

// TestServer_MaxConnectionsPerIP: further connections of an address are refused, and other addresses are not.
func TestServer_MaxConnectionsPerIP(t *testing.T) {
	onlyLinux(t)
	core, logs := observer.New(zap.WarnLevel)
	_, addr := startTCP(t, Config{Handler: echo, MaxConnectionsPerIP: 2, Log: zap.New(core)})
	kept := []net.Conn{dialFrom(t, addr, crowd), dialFrom(t, addr, crowd)}
	for range 10 {
		requireClosed(t, dialFrom(t, addr, crowd))
	}
	for _, c := range append(kept, dialFrom(t, addr, other)) {
		write(t, c, request(metadata, 1, "a"))
		requireResponse(t, c, 1, "a")
	}
	require.Equal(t, 1, logs.Len(), "once a minute")
	require.Equal(t, "--max-connections-per-ip", logs.All()[0].ContextMap()["setting"])
}

// TestServer_ClosesConnectionsWithoutARequest: a connection has 30 s for its first request, and its TLS handshake 10 s from the
// accept on, however often the client sends a byte.
func TestServer_ClosesConnectionsWithoutARequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, p, stop := start(t, Config{Handler: echo})
		defer stop()
		began := time.Now()
		c := p.dial()
		requireClosed(t, c)
		require.Equal(t, 30*time.Second, time.Since(began))
		synctest.Wait()
		require.EqualValues(t, 1, testutil.ToFloat64(s.m.closed[closeNoRequest]))
	})
	synctest.Test(t, func(t *testing.T) {
		p := newPipes()
		s, err := New(Config{Handler: echo, Listeners: []Listener{{
			Name: "test", Socket: p, TLS: &tls.Config{Certificates: []tls.Certificate{certificate(t)}},
		}}})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Run(ctx) }()
		began := time.Now()
		c := p.dial()
		trickled := make(chan struct{})
		go func() {
			defer close(trickled)
			_, err := c.Write([]byte{0x16, 3, 1, 2, 0}) // a record of 512 bytes
			for ; err == nil; _, err = c.Write([]byte{0}) {
				<-time.After(time.Second)
			}
		}()
		_, _ = io.Copy(io.Discard, c)
		took := time.Since(began)
		<-trickled
		cancel()
		require.NoError(t, <-done)
		require.Equal(t, 10*time.Second, took)
		require.EqualValues(t, 1, testutil.ToFloat64(s.m.closed[closeHandshake]))
	})
}

// TestServer_MemoryOfAConnection holds the memory of connections, before their first request and after it, to the numbers that
// the default bound of connections is derived from.
func TestServer_MemoryOfAConnection(t *testing.T) {
	if poison {
		t.Skip("the race detector takes memory")
	}
	const connections = 2000
	p := newPipes()
	s, err := New(Config{Handler: echo, MaxConnections: connections, Listeners: []Listener{{Name: "test", Socket: p}}})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	pipes := make([][2]net.Conn, connections)
	for i := range pipes {
		pipes[i][0], pipes[i][1] = net.Pipe()
	}
	before := inUse()
	for _, pipe := range pipes {
		p.conns <- pipe[1]
	}
	require.Eventually(t, func() bool { return s.Connections() == connections }, time.Minute, time.Millisecond)
	silent := (inUse() - before) / connections
	for _, pipe := range pipes {
		write(t, pipe[0], request(metadata, 1, "a"))
		requireResponse(t, pipe[0], 1, "a")
	}
	require.Eventually(t, func() bool { return s.limit.Idle() == connections }, time.Minute, time.Millisecond)
	idle := (inUse() - before) / connections
	t.Logf("%d bytes a silent connection, %d an idle one", silent, idle)
	// Spans of stacks and pools, which a busy machine fills differently, take up to a quarter more.
	require.LessOrEqual(t, silent, int64(SilentConnectionBytes*5/4))
	require.LessOrEqual(t, idle, int64(IdleConnectionBytes*5/4))
	cancel()
	for _, pipe := range pipes {
		_ = pipe[0].Close()
	}
	require.NoError(t, <-done)
}

// inUse returns the bytes of the heap and of stacks in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC() // empties pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
