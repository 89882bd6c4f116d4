package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// TestSetup_LargeRecords: produce sends what the topic takes.
func TestSetup_LargeRecords(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t)
	harness.CLI(t, dev.Bootstrap, nil, "topic", "create", "large", "-c", "max.message.bytes=8000000")
	line := strings.Repeat("x", 7_900_000)
	harness.CLI(t, dev.Bootstrap, strings.NewReader(line+"\n"), "produce", "large")
	require.Equal(t, line+"\n", harness.CLI(t, dev.Bootstrap, nil, "consume", "large", "--from", "earliest", "-e"))
	r := harness.TryCLI(t, dev.Bootstrap, strings.NewReader(strings.Repeat("x", 8_100_000)+"\n"), "produce", "large")
	require.NotZero(t, r.Code)
	require.Contains(t, r.Err, `a record is larger than topic "large" takes; raise it with`)
}
