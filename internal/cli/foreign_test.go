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
	for name, hangUp := range map[string]func(net.Conn){
		"end":   func(conn net.Conn) { _, _ = conn.Read(make([]byte, 4096)) },
		"reset": func(conn net.Conn) { _, _ = conn.Read(make([]byte, 4)) }, // the rest is unread
	} {
		t.Run(name, func(t *testing.T) {
			address := listen(t, hangUp)
			c := ClientConfig{Bootstrap: []string{address}, Timeout: time.Hour, TLS: true}
			err := ListTopics(t.Context(), TopicConfig{ClientConfig: c}, Streams{Out: &bytes.Buffer{}})
			require.EqualError(t, err, address+" hangs up on TLS: leave out --tls and --tls-ca, and unset FRESHET_TLS and FRESHET_TLS_CA, if that listener has none")
		})
	}
}

// kafkaPort answers ApiVersions with its correlation ID, and hangs up on a request of another size, as an agent does.
func kafkaPort(t *testing.T) string {
	t.Helper()
	return listen(t, func(conn net.Conn) {
		request := make([]byte, len(apiVersions))
		if _, err := io.ReadFull(conn, request[:4]); err != nil || request[0] != 0 {
			return
		}
		_, _ = io.ReadFull(conn, request[4:])
		_, _ = conn.Write(append([]byte{0, 0, 0, 4}, request[8:12]...))
	})
}

// grpcPort serves gRPC without TLS.
func grpcPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := grpc.NewServer()
	t.Cleanup(s.Stop)
	go func() { _ = s.Serve(l) }()
	return l.Addr().String()
}

// TestCheckGRPC: an address that certainly speaks another protocol is named with the right port, unless another address may be right.
func TestCheckGRPC(t *testing.T) {
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	secret := httptest.NewTLSServer(http.NotFoundHandler())
	defer secret.Close()
	http1, https := page.Listener.Addr().String(), secret.Listener.Addr().String()
	kafka, works := kafkaPort(t), grpcPort(t)
	for _, right := range [][]string{{works}, {https}, {"127.0.0.1:1"}, {http1, works}, {kafka, "127.0.0.1:1"}} {
		require.NoError(t, CheckControlPlane(t.Context(), right))
		require.NoError(t, CheckEtcd(t.Context(), right))
	}
	require.EqualError(t, CheckControlPlane(t.Context(), []string{http1}),
		"--control-plane "+http1+" speaks HTTP, not gRPC; name the address of a control plane for agents (its --grpc-listen, port 7050 by default)")
	require.EqualError(t, CheckEtcd(t.Context(), []string{kafka, http1}),
		"--etcd "+kafka+" speaks Kafka's protocol, not gRPC; --etcd "+http1+" speaks HTTP, not gRPC; name a client address of etcd (port 2379 by default)")
}

// TestOperator_WrongPort: each other port of Freshet, and one with TLS, is answered with the right port or the right scheme.
func TestOperator_WrongPort(t *testing.T) {
	agent := httptest.NewServer(http.NotFoundHandler())
	defer agent.Close()
	secret := httptest.NewTLSServer(http.NotFoundHandler())
	defer secret.Close()
	kafka, agents := kafkaPort(t), grpcPort(t)
	const right = "; name the HTTP address of a control plane (its --http-listen, port 8090 by default)"
	for address, says := range map[string]string{
		kafka:                           "--control-plane-http " + kafka + " speaks Kafka's protocol, not HTTP" + right,
		agents:                          "--control-plane-http " + agents + " speaks gRPC or other HTTP/2, not HTTP" + right,
		agent.Listener.Addr().String():  "--control-plane-http " + agent.URL + " speaks HTTP, but is no control plane's" + right + "; agents have another one (port 8080 by default)",
		secret.Listener.Addr().String(): "--control-plane-http http://" + secret.Listener.Addr().String() + ": that port speaks TLS: write https://",
	} {
		c := OperatorConfig{ControlPlane: []string{address}, VirtualCluster: "main", Key: "k"}
		require.EqualError(t, ListDeletedTopics(t.Context(), c, Streams{Out: io.Discard}), says)
	}
}

func TestCheckHealth_WrongPort(t *testing.T) {
	kafka := kafkaPort(t)
	require.EqualError(t, CheckHealth(t.Context(), "http://"+kafka+"/readyz", time.Minute), "URL: "+kafka+
		" speaks Kafka's protocol, not HTTP; name an HTTP address (the --http-listen of an agent or a control plane, ports 8080 and 8090 by default)")
}

func TestSpoken(t *testing.T) {
	for answer, want := range map[string]string{
		"": "", "HTTP/1.1 ": "HTTP", "SSH-2.0-O": "SSH", "\x15\x03\x01\x00\x02\x02\x46": spokenTLS, "\x00\x00\x06\x04\x00\x00\x00\x00\x00": "gRPC or other HTTP/2",
		"\x00\x00\x00\x2a\x00\x00\x00\x00\x00": "", "\x15\x04\x01": "",
	} {
		require.Equal(t, want, spokenBy([]byte(answer)), "%q", answer)
	}
}
