package spoken_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/freshet-io/freshet/internal/spoken"
)

func TestAt(t *testing.T) {
	secured := httptest.NewTLSServer(http.NotFoundHandler())
	defer secured.Close()
	require.Equal(t, spoken.TLS, spoken.At(t.Context(), strings.TrimPrefix(secured.URL, "https://"), nil))

	plain, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	go func() { _ = server.Serve(plain) }()
	defer server.Stop()
	require.Equal(t, spoken.Plain, spoken.At(t.Context(), plain.Addr().String(), nil))

	require.Equal(t, spoken.Plain, spoken.At(t.Context(), multiplexed(t), nil), "a port that hangs up on TLS, as etcd's does")

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.Equal(t, spoken.Unknown, spoken.At(t.Context(), closed.Addr().String(), nil))
}

// multiplexed returns an address that answers HTTP/2 and closes other connections without a word.
func multiplexed(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			began := make([]byte, 3)
			if _, err := io.ReadFull(conn, began); err == nil && string(began) == "PRI" {
				_, _ = conn.Write([]byte{0, 0, 0, 4, 0, 0, 0, 0, 0}) // SETTINGS
			}
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}
