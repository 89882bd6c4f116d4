package spoken_test

import (
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

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	require.Equal(t, spoken.Unknown, spoken.At(t.Context(), closed.Addr().String(), nil))
}
