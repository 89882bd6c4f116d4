package clients

import (
	"testing"

	"github.com/freshet-io/freshet/test/harness"
)

// TestDifferential_OneKafka runs comparisons that use topics and groups of their own against one Apache Kafka, whose start takes longer
// than some of them.
func TestDifferential_OneKafka(t *testing.T) {
	t.Parallel()
	kafka := harness.StartKafka(t, "log.cleaner.backoff.ms=100", "log.cleaner.dedupe.buffer.size=4194304")
	for name, compare := range map[string]func(*testing.T, *harness.Kafka){
		"configs":              compareConfigs,
		"group configs":        compareGroupConfigs,
		"cleaner":              compareCleaners,
		"cleaner of processes": compareCleanersOfProcesses,
	} {
		t.Run(name, func(t *testing.T) { t.Parallel(); compare(t, kafka) })
	}
}
