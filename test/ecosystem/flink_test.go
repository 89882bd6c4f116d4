package ecosystem

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// TestFlink_ExactlyOnce runs a Flink job that copies a topic with exactly-once delivery. The job fails once and restarts from its
// last checkpoint, which aborts or resumes its transactions. Each record arrives once.
func TestFlink_ExactlyOnce(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	b.create(t, "in", 2)
	b.create(t, "out", 2)
	options := []string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED"}
	p := harness.JavaSourceProcess(t, "flink/Flink.java", options, b.bootstrap, t.TempDir())
	p.Launch()
	const records = 1000
	all := numbers(records)
	b.produce(t, "in", 0, all[:records/2]...)
	b.awaitCommitted(t, "out", records/2)
	b.produce(t, "in", 1, append(all[records/2:], "fail")...)
	want := append(numbers(records), "fail")
	b.awaitCommitted(t, "out", len(want))
	require.Contains(t, p.Output(), "the job fails")
	p.Kill()
	got := b.values(t, "out")
	slices.Sort(got)
	slices.Sort(want)
	require.Equal(t, want, got)
}
