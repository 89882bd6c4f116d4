package matrix

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// drainConsumers returns the command lines of consumers that read a topic: each library once assigned and once in a group.
func drainConsumers(t *testing.T) map[string][]string {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	python := func(requirements, script string) []string {
		folder := filepath.Join(here, "python")
		return []string{harness.PythonWith(t, filepath.Join(folder, "requirements", requirements)), "-B", filepath.Join(folder, script)}
	}
	java := []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx96m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}
	return map[string][]string{
		"aiokafka":     python("aiokafka-0.14.0.txt", "drain_aio.py"),
		"kafka-python": python("kafka-python-2.0.6.txt", "drain_kafkapython.py"),
		"java":         append(java, "-cp", harness.JavaClient(t, filepath.Join(here, "java"), "2.8.2"), "Drain"),
	}
}

// TestDrain_OldClientsMove replaces a zone's only agent by another one at another address. Consumers that know the first agent alone, and
// are too old to find a leader in an error (KIP-951), read on from the second, each record once.
func TestDrain_OldClientsMove(t *testing.T) {
	t.Parallel()
	consumers := drainConsumers(t)
	c := harness.NewCluster(t, harness.ClusterConfig{Agents: 2, ControlPlanes: 1})
	first, second := c.Agents[0], c.Agents[1]
	c.ControlPlanes[0].Launch()
	first.Launch()
	c.ControlPlanes[0].AwaitReady()
	first.AwaitReady()
	const topic, partitions = "drained", 2
	_, err := admin(t, first.Bootstrap).CreateTopic(t.Context(), partitions, 1, nil, topic)
	require.NoError(t, err)

	running := make(map[string]*testservers.Process)
	for name, command := range consumers {
		for _, group := range []string{"", "group-of-" + name} {
			label := strings.TrimSpace(name + " " + group)
			args := append(command[1:len(command):len(command)], first.Bootstrap, topic, group, "")
			p := testservers.NewProcess(t, label, command[0], args, func() error { return nil })
			p.Launch()
			running[label] = p
		}
	}
	produce := func(bootstrap, word string) {
		t.Helper()
		client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()))
		require.NoError(t, err)
		defer client.Close()
		for i := range int32(partitions) {
			r := &kgo.Record{Topic: topic, Partition: i, Value: fmt.Appendf(nil, "%s-%d", word, i)}
			require.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
		}
	}
	read := func(word string) {
		t.Helper()
		for label, p := range running {
			for i := range partitions {
				line := fmt.Sprintf("read %s-%d\n", word, i)
				harness.Await(t, label+": "+line, func() bool {
					require.True(t, p.Running(), "%s ended\n%s", label, p.Output())
					return strings.Contains(p.Output(), line)
				})
			}
		}
	}
	produce(first.Bootstrap, "before")
	read("before")

	second.Launch()
	second.AwaitReady()
	harness.Await(t, "the first agent shows the second", func() bool { return len(nodes(t, first.Bootstrap)) == 2 })
	took, err := first.Terminate(time.Minute)
	require.NoError(t, err)
	t.Logf("the first agent ended within %s", took.Round(time.Millisecond))
	began := time.Now()
	produce(second.Bootstrap, "after")
	read("after")
	t.Logf("all consumers read on within %s", time.Since(began).Round(time.Millisecond))
	for label, p := range running {
		for _, word := range []string{"before", "after"} {
			for i := range partitions {
				require.Equal(t, 1, strings.Count(p.Output(), fmt.Sprintf("read %s-%d\n", word, i)), "%s reads %s once", label, word)
			}
		}
	}
}

// nodes returns the brokers that an agent's Metadata names.
func nodes(t *testing.T, bootstrap string) kadm.BrokerDetails {
	t.Helper()
	brokers, err := admin(t, bootstrap).ListBrokers(t.Context())
	require.NoError(t, err)
	return brokers
}
