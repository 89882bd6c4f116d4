package httpapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/registry"
	"github.com/freshet-io/freshet/internal/accesskey"
	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/internal/tlsfiles"
)

// pipes is a network within the process, for fake time.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { close(p); return nil }
func (p pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p pipes) dial() net.Conn {
	near, far := net.Pipe()
	p <- newQueued(far)
	return newQueued(near)
}

// queued is an end of a net.Pipe whose writes do not wait for the reader: both ends of HTTP/2 write before they read.
type queued struct {
	net.Conn
	mu       sync.Mutex
	closed   bool
	deadline time.Time // of writes
	out      chan []byte
}

func newQueued(c net.Conn) *queued {
	q := &queued{Conn: c, out: make(chan []byte, 1024)}
	go func() {
		for b := range q.out {
			_, _ = c.Write(b) // the reader finds the end
		}
		_ = c.Close()
	}()
	return q
}

func (q *queued) Write(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return 0, net.ErrClosed
	}
	if !q.deadline.IsZero() && !q.deadline.After(time.Now()) {
		return 0, os.ErrDeadlineExceeded
	}
	q.out <- bytes.Clone(b)
	return len(b), nil
}

func (q *queued) SetWriteDeadline(at time.Time) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.deadline = at
	return nil
}

func (q *queued) SetDeadline(at time.Time) error {
	return errors.Join(q.SetReadDeadline(at), q.SetWriteDeadline(at))
}

// Close closes the connection after its written bytes.
func (q *queued) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.out)
		_ = q.SetReadDeadline(time.Now())
		_ = q.Conn.SetWriteDeadline(time.Now().Add(time.Second))
	}
	return nil
}

// silentEtcd answers nothing.
type silentEtcd struct{ registry.Client }

func (silentEtcd) Get(ctx context.Context, _ string, _ ...clientv3.OpOption) (*clientv3.GetResponse, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// serving is a Server with fake time in front of an etcd that does not answer.
type serving struct {
	network pipes
	trust   *tls.Config
	server  *Server
}

// serve runs fn beside a Server, with fake time. wrap changes its handler.
func serve(t *testing.T, wrap func(http.Handler) http.Handler, fn func(t *testing.T, s *serving)) {
	t.Helper()
	files := testservers.NewTLSFiles(t)
	synctest.Test(t, func(t *testing.T) {
		own, err := tlsfiles.Files{Cert: files.Cert, Key: files.Key}.Server(zap.NewNop())
		require.NoError(t, err)
		trust, err := tlsfiles.Files{CA: files.CA}.Client(true, zap.NewNop())
		require.NoError(t, err)
		trust.ServerName, trust.InsecureSkipVerify = "localhost", true //nolint:gosec // the fake clock is before the certificate
		h, err := New(Config{Registry: registry.New(registry.Config{Client: silentEtcd{}}), Logger: zap.NewNop(), Operator: isOperator})
		require.NoError(t, err)
		var handler http.Handler = h
		if wrap != nil {
			handler = wrap(h)
		}
		s := &serving{network: make(pipes), trust: trust}
		s.server, err = NewServer(ServerConfig{TLS: own, Handler: handler, Log: zap.NewNop()})
		require.NoError(t, err)
		s.server.serveOn(s.network)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- s.server.Run(ctx) }()
		fn(t, s)
		cancel()
		require.NoError(t, <-ended)
		time.Sleep(2 * writeTimeout) // sleeps: the clock is fake, and goroutines of connections end
	})
}

// protocols runs fn with a client of each version of HTTP.
func (s *serving) protocols(t *testing.T, fn func(t *testing.T, major int, c *http.Client)) {
	t.Helper()
	for _, major := range []int{1, 2} {
		transport := &http.Transport{
			DialContext:     func(context.Context, string, string) (net.Conn, error) { return s.network.dial(), nil },
			TLSClientConfig: s.trust.Clone(), ForceAttemptHTTP2: major == 2,
		}
		fn(t, major, &http.Client{Transport: transport})
		transport.CloseIdleConnections()
	}
}

// post returns the status of a request for a team, and the time until the answer.
func post(t *testing.T, c *http.Client, major int, body io.Reader) (status int, took time.Duration) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://localhost/v1/teams", body)
	require.NoError(t, err)
	r.Header.Set("Authorization", "Bearer "+operatorKey)
	r.Header.Set("Content-Type", "application/json")
	return do(t, c, major, r)
}

func do(t *testing.T, c *http.Client, major int, r *http.Request) (status int, took time.Duration) {
	t.Helper()
	began := time.Now()
	response, err := c.Do(r)
	require.NoError(t, err)
	took = time.Since(began)
	_, _ = io.Copy(io.Discard, response.Body) // a stalled body cuts the connection
	_ = response.Body.Close()
	require.Equal(t, major, response.ProtoMajor)
	return response.StatusCode, took
}

func TestServer_StalledBody(t *testing.T) {
	serve(t, nil, func(t *testing.T, s *serving) {
		t.Helper()
		s.protocols(t, func(t *testing.T, major int, c *http.Client) {
			t.Helper()
			body, feed := io.Pipe()
			go func() { _, _ = feed.Write([]byte(`{"name":`)) }() // and no more
			status, took := post(t, c, major, body)
			require.Equal(t, http.StatusRequestTimeout, status)
			require.Equal(t, bodyTimeout, took)
			require.NoError(t, feed.Close())
		})
	})
}

// TestServer_StalledBodies: connections that send half a body keep no slot, so a request beside them is answered at once.
func TestServer_StalledBodies(t *testing.T) {
	serve(t, nil, func(t *testing.T, s *serving) {
		t.Helper()
		stalled := make([]net.Conn, maxRequests+44)
		trust := s.trust.Clone()
		trust.NextProtos = []string{"http/1.1"}
		for i := range stalled {
			conn := tls.Client(s.network.dial(), trust)
			require.NoError(t, conn.HandshakeContext(t.Context()))
			_, err := io.WriteString(conn, "POST /v1/signup HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"email\":")
			require.NoError(t, err)
			stalled[i] = conn
		}
		synctest.Wait()
		s.protocols(t, func(t *testing.T, major int, c *http.Client) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost/v1/openapi.json", nil)
			require.NoError(t, err)
			status, took := do(t, c, major, r)
			require.Equal(t, http.StatusOK, status)
			require.Less(t, took, time.Second)
		})
		for _, conn := range stalled {
			_ = conn.Close()
		}
	})
}

func TestServer_BytesOfABody(t *testing.T) {
	serve(t, nil, func(t *testing.T, s *serving) {
		t.Helper()
		s.protocols(t, func(t *testing.T, major int, c *http.Client) {
			t.Helper()
			status, _ := post(t, c, major, strings.NewReader(`{"name":"`+strings.Repeat("x", 65<<10)+`"}`))
			require.Equal(t, http.StatusRequestEntityTooLarge, status)
		})
	})
}

// TestServer_SilentEtcd: a request waits for etcd until its time is over.
func TestServer_SilentEtcd(t *testing.T) {
	serve(t, nil, func(t *testing.T, s *serving) {
		t.Helper()
		s.protocols(t, func(t *testing.T, major int, c *http.Client) {
			t.Helper()
			status, took := post(t, c, major, strings.NewReader(`{"name":"x","email":"x@example.com"}`))
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.Equal(t, requestTimeout+bodyTimeout, took)

			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost/v1/teams/x", nil)
			require.NoError(t, err)
			r.Header.Set("Authorization", "Bearer "+accesskey.NewToken())
			status, took = do(t, c, major, r)
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.Equal(t, requestTimeout+bodyTimeout, took)
		})
	})
}

// TestServer_HangingHandler: a handler that ignores the end of its time has its connection closed, or its stream.
func TestServer_HangingHandler(t *testing.T) {
	hangs := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(2 * writeTimeout) // sleeps: the clock is fake
			_, _ = io.WriteString(w, "late")
		})
	}
	serve(t, hangs, func(t *testing.T, s *serving) {
		t.Helper()
		s.protocols(t, func(t *testing.T, _ int, c *http.Client) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost/", nil)
			require.NoError(t, err)
			response, err := c.Do(r)
			if err == nil {
				response.Body.Close()
			}
			require.Error(t, err)
		})
	})
}

// TestServer_BytesOfAHeader sends headers below and above the bound. Clients of HTTP/2 know the bound and refuse the request themselves.
func TestServer_BytesOfAHeader(t *testing.T) {
	serve(t, nil, func(t *testing.T, s *serving) {
		t.Helper()
		s.protocols(t, func(t *testing.T, major int, c *http.Client) {
			t.Helper()
			for _, length := range []int{maxHeaderBytes - 1<<10, maxHeaderBytes + 8<<10} { // the first answer tells the client the bound
				want := http.StatusOK
				if length > maxHeaderBytes {
					want = http.StatusRequestHeaderFieldsTooLarge
				}
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost/v1/openapi.json", nil)
				require.NoError(t, err)
				r.Header.Set("X-Large", strings.Repeat("x", length))
				if major == 2 && want != http.StatusOK {
					response, err := c.Do(r)
					if err == nil {
						response.Body.Close()
					}
					require.ErrorContains(t, err, "larger than peer's advertised limit")
					continue
				}
				status, _ := do(t, c, major, r)
				require.Equal(t, want, status, "HTTP/%d, %d", major, length)
			}
		})
	})
}

// TestServer_TimesOfAConnection: connections that are silent before a request, within its header and after it are closed.
func TestServer_TimesOfAConnection(t *testing.T) {
	serve(t, nil, func(t *testing.T, s *serving) {
		t.Helper()
		for sent, want := range map[string]time.Duration{
			"":                                    bodyTimeout,
			"GET /v1/openapi.json HTTP/1.1\r\nHo": bodyTimeout,
			"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n": idleTimeout,
		} {
			trust := s.trust.Clone()
			trust.NextProtos = []string{"http/1.1"}
			conn := tls.Client(s.network.dial(), trust)
			require.NoError(t, conn.HandshakeContext(t.Context()))
			_, err := io.WriteString(conn, sent)
			require.NoError(t, err)
			began := time.Now()
			_, _ = io.Copy(io.Discard, conn) // until the end
			require.Equal(t, want, time.Since(began), sent)
			_ = conn.Close()
		}
		raw := s.network.dial()
		began := time.Now()
		_, _ = io.Copy(io.Discard, raw)
		require.Equal(t, bodyTimeout, time.Since(began), "TLS handshake")
		_ = raw.Close()
	})
}

// TestServer_Connections: at the bound, a new connection takes the place of an idle one.
func TestServer_Connections(t *testing.T) {
	serve(t, nil, func(t *testing.T, s *serving) {
		t.Helper()
		open := make([]net.Conn, maxConnections)
		for i := range open {
			open[i] = s.network.dial()
		}
		synctest.Wait()
		require.Equal(t, maxConnections, s.server.limit.Open())
		further := s.network.dial()
		synctest.Wait()
		require.Equal(t, maxConnections, s.server.limit.Open())
		_, err := open[0].Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		for _, c := range append(open, further) {
			_ = c.Close()
		}
	})
}

// TestServer_Streams opens more requests on one connection than the bound. The further one waits for the end of another.
func TestServer_Streams(t *testing.T) {
	var mu sync.Mutex
	running, most := 0, 0
	slow := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			time.Sleep(time.Second) // sleeps: the clock is fake
			mu.Lock()
			running--
			mu.Unlock()
		})
	}
	serve(t, slow, func(t *testing.T, s *serving) {
		t.Helper()
		conn := s.network.dial()
		transport := &http.Transport{
			DialContext:     func(context.Context, string, string) (net.Conn, error) { return conn, nil },
			TLSClientConfig: s.trust.Clone(), ForceAttemptHTTP2: true, HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true}, MaxConnsPerHost: 1,
		}
		defer transport.CloseIdleConnections()
		get := func() error {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://localhost/", nil)
			require.NoError(t, err)
			response, err := transport.RoundTrip(r)
			if err == nil {
				err = response.Body.Close()
			}
			return err
		}
		require.NoError(t, get()) // the client knows the bound now
		began := time.Now()
		answers := make(chan error, maxStreams+1)
		for range maxStreams + 1 {
			go func() { answers <- get() }()
		}
		for range maxStreams + 1 {
			require.NoError(t, <-answers)
		}
		require.LessOrEqual(t, most, maxStreams)
		require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	})
}

// TestServer_ReceivedBytes: a client of HTTP/2 sends no more than the bound to a handler that does not read.
func TestServer_ReceivedBytes(t *testing.T) {
	deaf := func(http.Handler) http.Handler {
		return http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) }) // sleeps: the clock is fake
	}
	serve(t, deaf, func(t *testing.T, s *serving) {
		t.Helper()
		var sent atomic.Int64
		transport := &http.Transport{
			DialContext:     func(context.Context, string, string) (net.Conn, error) { return &counted{s.network.dial(), &sent}, nil },
			TLSClientConfig: s.trust.Clone(), ForceAttemptHTTP2: true,
		}
		_, _ = post(t, &http.Client{Transport: transport}, 2, zeros{})
		require.LessOrEqual(t, sent.Load(), int64(maxReceived+16<<10), "with headers and TLS")
		require.GreaterOrEqual(t, sent.Load(), int64(maxBody))
		transport.CloseIdleConnections()
	})
}

// counted counts the bytes that a connection sends.
type counted struct {
	net.Conn
	sent *atomic.Int64
}

func (c *counted) Write(b []byte) (int, error) {
	c.sent.Add(int64(len(b)))
	return c.Conn.Write(b)
}

// zeros is an endless body.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

// TestServer_Stops: a request in progress ends before the server, and a hanging one is cut.
func TestServer_Stops(t *testing.T) {
	for in, fails := range map[time.Duration]bool{stopTimeout / 2: false, 2 * stopTimeout: true} {
		slow := func(http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(in) // sleeps: the clock is fake
				_, _ = io.WriteString(w, "done")
			})
		}
		answered := make(chan error, 2)
		serve(t, slow, func(t *testing.T, s *serving) {
			t.Helper()
			s.protocols(t, func(t *testing.T, _ int, c *http.Client) {
				t.Helper()
				r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://localhost/", nil)
				require.NoError(t, err)
				go func() {
					response, err := c.Do(r)
					if err == nil {
						_, err = io.Copy(io.Discard, response.Body)
						err = errors.Join(err, response.Body.Close())
					}
					answered <- err
				}()
				synctest.Wait()
			})
		})
		for range 2 {
			require.Equal(t, fails, <-answered != nil, in)
		}
	}
}

func TestNewServer_NeedsTLS(t *testing.T) {
	_, err := NewServer(ServerConfig{Log: zap.NewNop()})
	require.ErrorContains(t, err, "needs a certificate")
}
