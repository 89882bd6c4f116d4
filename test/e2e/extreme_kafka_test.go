package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

// TestKafka_ExtremeBatches sends the same batches to Apache Kafka and compares its answers with those that
// TestDev_ExtremeBatchesBesideOthers expects of it.
func TestKafka_ExtremeBatches(t *testing.T) {
	t.Parallel()
	w := newExtremeWorld(t, harness.StartKafka(t).Bootstrap)
	w.kafka = true
	w.createTopics()
	client, err := kgo.NewClient(kgo.SeedBrokers(w.bootstrap), kgo.TransactionalID("first"))
	require.NoError(t, err)
	defer client.Close()
	_, _, err = client.ProducerID(t.Context()) // loads the transaction coordinator
	require.NoError(t, err)
	rows := extremeBatches(t)
	for i := range rows {
		rows[i] = slices.DeleteFunc(rows[i], func(e extremeBatch) bool { return strings.HasPrefix(e.kafka, "(") })
	}
	w.sendAll(rows)
	w.logAnswers()
}
