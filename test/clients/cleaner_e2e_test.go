package clients

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/test/harness"
)

// compareCleanersOfProcesses has the same clients do the same to Apache Kafka and to Freshet, lets each clean what
// it has, and compares what is left.
func compareCleanersOfProcesses(t *testing.T, kafka *harness.Kafka) {
	t.Helper()
	dev := harness.StartDev(t, "--compact-after=100ms", "--auto-create-topics=false")
	sides := []*cleanedTopic{
		newCleanedTopic(t, kafka.Bootstrap, kafka.LogDir, "processes", 24*time.Hour),
		newCleanedTopic(t, dev.Bootstrap, "", "processes", 24*time.Hour),
	}
	sides[1].at = sides[0].at
	for _, c := range sides {
		c.configure(t, "1")
		c.history(t)
	}
	end := time.Now().Add(10 * time.Second) // later than any marker, so that Kafka begins a segment
	for _, c := range sides {
		c.at = end
		c.last(t)
	}
	sent := list(t, fetchAll(t, sides[0].conn, "processes", 0).batches, records)
	require.Equal(t, sent, list(t, fetchAll(t, sides[1].conn, "processes", 0).batches, records), "the same was written")
	for _, c := range sides {
		c.configure(t, "0")
	}
	sides[0].awaitCleaned(t)
	left := list(t, fetchAll(t, sides[0].conn, "processes", 0).batches, records)
	require.Less(t, len(left), len(sent))

	awaitClean(t, dev, float64(len(sent)-len(left)))
	stored := fetchAll(t, dial(t, dev.Bootstrap), "processes", 0).batches
	require.Equal(t, left, list(t, stored, records))
	for _, b := range stored {
		require.Equal(t, kafkaproto.LogEpoch, b.PartitionLeaderEpoch())
		if !b.Control() {
			requireLastOf(t, b)
		}
	}
}

// requireLastOf: batches that lost records still say how far they reached.
func requireLastOf(t *testing.T, b kafkaproto.RecordBatch) {
	t.Helper()
	for r, err := range kafkaproto.Records(b, 1<<20) {
		require.NoError(t, err)
		require.LessOrEqual(t, r.Offset, b.LastOffset())
	}
}
