package clients

import (
	"testing"

	"github.com/freshet-io/freshet/test/harness"
)

// TestDifferential_OneKafka has all that asks only about topics of its own share one Apache Kafka: that takes longer to start
// than some of them take.
func TestDifferential_OneKafka(t *testing.T) {
	t.Parallel()
	kafka := harness.StartKafka(t, "log.cleaner.backoff.ms=100", "log.cleaner.dedupe.buffer.size=4194304")
	for name, compare := range map[string]func(*testing.T, *harness.Kafka){
		"configs":              compareConfigs,
		"cleaner":              compareCleaners,
		"cleaner of processes": compareCleanersOfProcesses,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); compare(t, kafka) })
	}
}
