package connlimit

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// certificate returns a new certificate for 127.0.0.1.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// trusting is the configuration of a client that takes any certificate.
var trusting = &tls.Config{InsecureSkipVerify: true}

// serve runs an HTTP server on a limit, with TLS, until the test ends.
func serve(t *testing.T, l *Limit, s *http.Server, valid func(*http.Request) bool) (addr string) {
	t.Helper()
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	Guard(s, valid)
	s.TLSConfig = l.TLS(&tls.Config{Certificates: []tls.Certificate{certificate(t)}})
	served := make(chan error)
	go func() { served <- s.ServeTLS(l.Listener(inner), "", "") }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
	})
	return inner.Addr().String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

// get asks over a connection and returns the status line.
func get(t *testing.T, c net.Conn, path string) string {
	t.Helper()
	_, err := io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	line := make([]byte, len("HTTP/1.1 200"))
	_, err = io.ReadFull(c, line)
	require.NoError(t, err)
	return string(line)
}

// TestGuard_StatesOfConnections: a connection is fresh until a valid request, busy in its handler, then idle; and not bounded once it is
// hijacked.
func TestGuard_StatesOfConnections(t *testing.T) {
	l := New(Config{Max: 10})
	states := make(chan int, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(http.ResponseWriter, *http.Request) { states <- l.Idle() })
	mux.HandleFunc("/hijack", func(w http.ResponseWriter, _ *http.Request) {
		c, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = io.WriteString(c, "HTTP/1.1 101")
			states <- l.Open()
			_ = c.Close()
		}
	})
	addr := serve(t, l, &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}, func(r *http.Request) bool { return r.URL.Path != "/wrong" })

	c := tls.Client(dial(t, addr), trusting)
	require.Equal(t, "HTTP/1.1 200", get(t, c, "/wrong"))
	require.Zero(t, <-states)
	require.Zero(t, l.Idle())
	require.Equal(t, 1, l.Open())
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return l.Open() == 0 }, time.Minute, time.Millisecond)

	c = tls.Client(dial(t, addr), trusting)
	require.Equal(t, "HTTP/1.1 200", get(t, c, "/right"))
	require.Zero(t, <-states, "busy in its handler")
	require.Equal(t, 1, l.Idle())
	c = tls.Client(dial(t, addr), trusting)
	require.Equal(t, "HTTP/1.1 101", get(t, c, "/hijack"))
	require.Equal(t, 1, <-states)
}

// TestListener_AcceptsBeyondRefusals: a refused connection is closed, and the next one is accepted.
func TestListener_AcceptsBeyondRefusals(t *testing.T) {
	l := New(Config{Max: 1})
	inner, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer inner.Close()
	busy := l.Admit(inner.Addr(), func(Reason) {})
	require.True(t, busy.Begin())
	refused := dial(t, inner.Addr().String())
	accepted := make(chan net.Conn)
	go func() {
		c, _ := l.Listener(inner).Accept()
		accepted <- c
	}()
	_, err = refused.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	busy.Leave()
	dial(t, inner.Addr().String())
	c := <-accepted
	require.Equal(t, 1, l.Open())
	require.NoError(t, c.Close())
	require.Zero(t, l.Open())
}

// TestTLS_HandshakesTakeTurns: a handshake waits while all slots are taken, connections that are silent or have sent half a hello take
// none, and no slot is lost.
func TestTLS_HandshakesTakeTurns(t *testing.T) {
	l := New(Config{Max: 100})
	addr := serve(t, l, &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.NotFoundHandler()}, func(*http.Request) bool { return true })
	for i := range 4 * cap(l.slots) {
		c := dial(t, addr)
		if i%2 == 0 {
			_, err := c.Write([]byte{0x16, 3, 1, 2, 0, 1})
			require.NoError(t, err)
		}
	}
	for range 4 * cap(l.slots) {
		c := tls.Client(dial(t, addr), trusting)
		require.NoError(t, c.Handshake())
		require.NoError(t, c.Close())
	}
	require.Eventually(t, func() bool { return len(l.slots) == 0 }, time.Minute, time.Millisecond)

	for range cap(l.slots) {
		l.slots <- struct{}{}
	}
	done := make(chan error, 1)
	go func() { done <- tls.Client(dial(t, addr), trusting).Handshake() }()
	require.Eventually(t, func() bool { return l.Open() == 4*cap(l.slots)+1 }, time.Minute, time.Millisecond)
	select {
	case err := <-done:
		t.Fatal("the handshake took no slot: ", err)
	default:
	}
	for range cap(l.slots) {
		<-l.slots
	}
	require.NoError(t, <-done)
	require.Eventually(t, func() bool { return len(l.slots) == 0 }, time.Minute, time.Millisecond)
}

// TestTLS_WaitsUntilTheContextEnds: a handshake that gets no slot in time fails.
func TestTLS_WaitsUntilTheContextEnds(t *testing.T) {
	l := New(Config{Max: 1})
	for range cap(l.slots) {
		l.slots <- struct{}{}
	}
	client, server := net.Pipe()
	defer client.Close()
	go func() { _ = tls.Client(client, trusting).Handshake() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	c := tls.Server(InTurn(server), l.TLS(&tls.Config{Certificates: []tls.Certificate{certificate(t)}}))
	require.ErrorIs(t, c.HandshakeContext(ctx), context.DeadlineExceeded)
	_ = c.Close()
}
