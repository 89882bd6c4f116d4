package ecosystem

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// TestStreams_RestoreFromCleanedChangelog loses the local state of an application after its changelog was cleaned. What
// it restores must be the state it had: each word's next count is the one after its last.
func TestStreams_RestoreFromCleanedChangelog(t *testing.T) {
	t.Parallel()
	if *against != "freshet" {
		t.Skip("Apache Kafka's cleaner is not told to run here; test/clients compares with it")
	}
	dev := harness.StartDev(t, "--auto-create-topics=false", "--compact-after=100ms")
	b := broker{bootstrap: dev.Bootstrap}
	b.create(t, "lines", 4)
	b.create(t, "counts", 3)
	seen := watchCounts(t, b, "counts")
	written := make(map[string]int)
	total := 0
	count := func() {
		worker := application{b: b, stateDir: t.TempDir()}.start(t, harness.JavaWorker) // without any state of its own
		lines := writeLines(t, b, "lines")
		seen.more(t, worker)
		for word, n := range lines.finish(t) {
			written[word] += n
			total += n
		}
		awaitLong(t, "all words are counted", func() bool { return seen.records.Load() >= int64(total) })
		worker.Close(t)
	}
	count()
	awaitCleaned(t, dev, float64(total)/2)
	stored := len(b.committed(t, "wordcount-counts-changelog"))
	require.Less(t, stored, total/2, "the changelog was cleaned")
	t.Logf("%d of %d records left in the changelog", stored, total)
	count()
	checkCounts(t, b.committed(t, "counts"), written)
	checkChangelog(t, b, "wordcount-counts-changelog", written)
}

// awaitCleaned waits until cleaning has removed so many records, and has the process start again: agents go on reading
// what they know for a while, which is sound, but is not what this is about.
func awaitCleaned(t *testing.T, dev *harness.Dev, removed float64) {
	t.Helper()
	metric := func(name string, labels ...string) float64 {
		v, err := harness.Metric(dev.HTTP, name, labels...)
		require.NoError(t, err)
		return v
	}
	awaitLong(t, "the changelog is cleaned", func() bool {
		return metric("freshet_clean_records_removed_total", `reason="superseded"`) > removed &&
			metric("freshet_jobs_completed_total", `kind="clean"`) == metric("freshet_clean_partitions_total")
	})
	dev.Kill()
	dev.Restart()
}
