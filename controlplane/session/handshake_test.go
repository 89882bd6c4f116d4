package session

import (
	"crypto/tls"
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/credentials"
)

// A failed TLS handshake is logged with the address of the caller, which may be any program.
func TestHandshakes_NameTheCaller(t *testing.T) {
	core, logs := observer.New(zap.WarnLevel)
	socket, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer socket.Close()
	caller, err := new(net.Dialer).DialContext(t.Context(), "tcp", socket.Addr().String())
	require.NoError(t, err)
	defer caller.Close()
	_, err = io.WriteString(caller, "GET / HTTP/1.1\r\n\r\n")
	require.NoError(t, err)
	accepted, err := socket.Accept()
	require.NoError(t, err)
	defer accepted.Close()
	_, _, err = handshakes{credentials.NewTLS(&tls.Config{}), newStrangers(zap.New(core))}.ServerHandshake(accepted)
	require.Error(t, err)
	require.Len(t, logs.All(), 1)
	require.Equal(t, "tls handshake with a caller failed", logs.All()[0].Message)
	require.Equal(t, caller.LocalAddr().String(), logs.All()[0].ContextMap()["from"])
}
