package cli

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
)

// listen serves connections one after the other.
func listen(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// TestDial_SaysWhatElseIsThere: a port of another protocol is told long before the time-out, which would never end here.
func TestDial_SaysWhatElseIsThere(t *testing.T) {
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	secret := httptest.NewTLSServer(http.NotFoundHandler())
	defer secret.Close()
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	calls := grpc.NewServer()
	defer calls.Stop()
	go func() { _ = calls.Serve(socket) }()
	certificate := secret.TLS.Certificates
	tlsOnly := listen(t, func(conn net.Conn) {
		_ = tls.Server(conn, &tls.Config{Certificates: certificate, MinVersion: tls.VersionTLS12}).Handshake()
	})
	shell := listen(t, func(conn net.Conn) {
		_, _ = io.WriteString(conn, "SSH-2.0-x\r\n")
		_, _ = io.Copy(io.Discard, conn)
	})
	for address, want := range map[string]string{
		page.Listener.Addr().String():   "speaks HTTP, not Kafka's protocol; name the Kafka address of an agent",
		secret.Listener.Addr().String(): "speaks HTTP, not Kafka's protocol",
		socket.Addr().String():          "speaks gRPC or other HTTP/2, not Kafka's protocol",
		tlsOnly:                         "speaks TLS: give --tls or --tls-ca",
		shell:                           "speaks SSH, not Kafka's protocol",
	} {
		c := ClientConfig{Bootstrap: []string{address}, Timeout: time.Hour}
		err := ListTopics(t.Context(), TopicConfig{ClientConfig: c}, Streams{Out: &bytes.Buffer{}})
		require.ErrorContains(t, err, address+" "+want)
	}
}

// A Kafka listener without TLS takes a ClientHello for a broken request, and hangs up.
func TestDial_ListenerWithoutTLS(t *testing.T) {
	address := listen(t, func(conn net.Conn) { _, _ = conn.Read(make([]byte, 4096)) })
	c := ClientConfig{Bootstrap: []string{address}, Timeout: time.Hour, TLS: true}
	err := ListTopics(t.Context(), TopicConfig{ClientConfig: c}, Streams{Out: &bytes.Buffer{}})
	require.EqualError(t, err, address+" hangs up on TLS: leave out --tls and --tls-ca if that listener has none")
}

func TestSpoken(t *testing.T) {
	for answer, want := range map[string]string{
		"": "", "HTTP/1.1 ": "HTTP", "SSH-2.0-O": "SSH", "\x15\x03\x01\x00\x02\x02\x46": spokenTLS, "\x00\x00\x06\x04\x00\x00\x00\x00\x00": "gRPC or other HTTP/2",
		"\x00\x00\x00\x2a\x00\x00\x00\x00\x00": "", "\x15\x04\x01": "",
	} {
		require.Equal(t, want, spoken([]byte(answer)), "%q", answer)
	}
}
