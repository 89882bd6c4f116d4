package cli

import (
	"io"
	"net"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/access"
)

// TestClientConfig_Locate finds a `freshet dev` by its data directory, and prefers an address that is given.
func TestClientConfig_Locate(t *testing.T) {
	t.Chdir(t.TempDir())
	locate := func(c ClientConfig) string {
		require.NoError(t, c.Locate(t.Context()))
		require.Len(t, c.Bootstrap, 1)
		return c.Bootstrap[0]
	}
	require.Equal(t, defaultBootstrap, locate(ClientConfig{}))
	absent := ClientConfig{DataDir: "other"}
	require.ErrorIs(t, absent.Locate(t.Context()), os.ErrNotExist)

	running := listen(t, func(net.Conn) {})
	require.NoError(t, os.Mkdir(access.DefaultDir, 0o700))
	require.NoError(t, access.Access{Kafka: running}.Write(access.DefaultDir))
	require.Equal(t, running, locate(ClientConfig{}))
	require.Equal(t, "given:9092", locate(ClientConfig{Bootstrap: []string{"given:9092"}, DataDir: "other"}))

	require.NoError(t, access.Access{Kafka: "127.0.0.1:1"}.Write(access.DefaultDir))
	require.Equal(t, defaultBootstrap, locate(ClientConfig{}), "the process is gone")
	stopped := TopicConfig{ClientConfig: ClientConfig{DataDir: access.DefaultDir}}
	require.ErrorContains(t, ListTopics(t.Context(), stopped, Streams{Out: io.Discard}), "nothing answers at 127.0.0.1:1; does freshet dev run on ./data?: ")
}
