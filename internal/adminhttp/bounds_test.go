package adminhttp

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

// pipes is a listener whose connections are in memory, for fake time.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// serve runs a server in a bubble. dial returns the client's end of a new connection.
func serve(t *testing.T, fn func(t *testing.T, dial func() net.Conn)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Ready: func() error { return nil }, Gatherer: prometheus.NewRegistry(), Log: zap.NewNop()})
		p := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		s.socket = s.limit.Listener(p)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- s.Run(ctx) }()
		fn(t, func() net.Conn {
			client, server := net.Pipe()
			p.conns <- server
			return client
		})
		cancel()
		require.NoError(t, <-ended)
	})
}

// TestServer_TimesOfAConnection shows how long a connection stays open before its first request, within the header of a request, and after an answer.
func TestServer_TimesOfAConnection(t *testing.T) {
	for name, c := range map[string]struct {
		sends    string
		answered bool
		closed   time.Duration
	}{
		"before its first request": {closed: headerTimeout},
		"within a header":          {sends: "GET /livez HTTP/1.1\r\nHost: ", closed: headerTimeout},
		"after an answer":          {sends: "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n", answered: true, closed: idleTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			serve(t, func(t *testing.T, dial func() net.Conn) {
				t.Helper()
				conn, began := dial(), time.Now()
				go func() { _, _ = io.WriteString(conn, c.sends) }()
				in := bufio.NewReader(conn)
				if c.answered {
					resp, err := http.ReadResponse(in, nil)
					require.NoError(t, err)
					body, err := io.ReadAll(resp.Body)
					require.NoError(t, err)
					require.Equal(t, "ok\n", string(body))
					require.NoError(t, resp.Body.Close())
				}
				_, err := io.Copy(io.Discard, in)
				require.NoError(t, err, "closed")
				require.Equal(t, c.closed, time.Since(began))
			})
		})
	}
}

// TestServer_BytesOfAHeader sends headers of maxHeaderBytes, and 4 KiB more, which net/http adds for its buffer.
func TestServer_BytesOfAHeader(t *testing.T) {
	const slop = 4 << 10
	for bytes, want := range map[int]int{
		maxHeaderBytes: http.StatusOK, maxHeaderBytes + slop: http.StatusOK, maxHeaderBytes + slop + 1: http.StatusRequestHeaderFieldsTooLarge,
	} {
		serve(t, func(t *testing.T, dial func() net.Conn) {
			t.Helper()
			conn := dial()
			request := "GET /livez HTTP/1.1\r\nHost: h\r\nX: "
			request += strings.Repeat("x", bytes-len(request)-len("\r\n\r\n")) + "\r\n\r\n"
			require.Len(t, request, bytes)
			go func() { _, _ = io.WriteString(conn, request) }()
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			require.Equal(t, want, resp.StatusCode, "%d bytes", bytes)
			require.NoError(t, resp.Body.Close())
			require.NoError(t, conn.Close())
		})
	}
}
