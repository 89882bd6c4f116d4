package matrix

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// TestOldProtocol sets kafka-python to a broker of version 0.10, which makes it send Produce version 2. Apache Kafka has
// refused that since 4.0 by closing the connection (KIP-896), and so does an agent, which logs the remedy.
func TestOldProtocol(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t)
	_, err := admin(t, dev.Bootstrap).CreateTopic(t.Context(), 1, 1, nil, "old")
	require.NoError(t, err)
	requirements, err := filepath.Abs("python/requirements/kafka-python-3.0.12.txt")
	require.NoError(t, err)
	r := harness.Program(t, harness.PythonWith(t, requirements), "-B", filepath.Join("python", "old.py"), dev.Bootstrap, "old")
	require.Contains(t, []string{"KafkaConnectionError", "KafkaTimeoutError"}, strings.TrimSpace(r.Out), r.Err)
	require.Contains(t, dev.Output(), "api=Produce api_version=2 min_version=3")
	require.Contains(t, dev.Output(), "upgrade it or remove that setting (KIP-896)")
}
