package clients

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// Main classes of Apache Kafka's command-line tools, beside those that package harness names.
const (
	kafkaConfigs         = "org.apache.kafka.tools.ConfigCommand"
	kafkaGetOffsets      = "org.apache.kafka.tools.GetOffsetShell"
	kafkaAPIVersions     = "org.apache.kafka.tools.BrokerApiVersionsCommand"
	kafkaLogDirs         = "org.apache.kafka.tools.LogDirsCommand"
	kafkaCluster         = "org.apache.kafka.tools.ClusterTool"
	kafkaProducerPerf    = "org.apache.kafka.tools.ProducerPerformance"
	kafkaVerifiableWrite = "org.apache.kafka.tools.VerifiableProducer"
)

// sortedLines are a text's lines in order.
func sortedLines(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return lines
}

// process runs a tool as a process of its own: one that reads its input, or that does something at the process's end.
func process(t *testing.T, bootstrap string, in io.Reader, class string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	harness.Java(t, in, &out, class, append([]string{"--bootstrap-server", bootstrap}, args...)...)
	return out.String()
}

// TestTools runs Apache Kafka's command-line tools.
func TestTools(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, "--auto-create-topics=false")
	k := harness.StartTools(t, dev.Bootstrap)
	fails := func(t *testing.T, class string, args ...string) string {
		t.Helper()
		r := k.Try(t, class, args...)
		require.NotZero(t, r.Code, "%s", r.All)
		return r.All
	}
	t.Run("kafka-topics", func(t *testing.T) {
		require.Contains(t, k.Run(t, harness.TopicCommand, "--create", "--topic", "t", "--partitions", "3", "--config", "retention.ms=1000000"), "Created topic t.")
		require.Contains(t, fails(t, harness.TopicCommand, "--create", "--topic", "t"), "Topic 't' already exists")
		k.Run(t, harness.TopicCommand, "--create", "--topic", "other")
		require.Equal(t, []string{"other", "t"}, sortedLines(k.Run(t, harness.TopicCommand, "--list", "--exclude-internal")))
		k.Run(t, harness.TopicCommand, "--alter", "--topic", "t", "--partitions", "4")
		require.Contains(t, fails(t, harness.TopicCommand, "--alter", "--topic", "t", "--partitions", "2"), "partition")
		described := k.Run(t, harness.TopicCommand, "--describe", "--topic", "t")
		require.Regexp(t, `Topic: t\s+TopicId: \S{22}\s+PartitionCount: 4\s+ReplicationFactor: 1\s+Configs: .*retention.ms=1000000`, described)
		require.Regexp(t, `Topic: t\s+Partition: 3\s+Leader: \d+\s+Replicas: \d+\s+Isr: \d+`, described)
		require.Empty(t, k.Run(t, harness.TopicCommand, "--describe", "--unavailable-partitions"))
		k.Run(t, harness.TopicCommand, "--delete", "--topic", "other")
		require.Equal(t, []string{"t"}, sortedLines(k.Run(t, harness.TopicCommand, "--list", "--exclude-internal")))
		require.Contains(t, fails(t, harness.TopicCommand, "--delete", "--topic", "other"), "does not exist")
	})
	t.Run("kafka-configs", func(t *testing.T) {
		topic := []string{"--entity-type", "topics", "--entity-name", "t"}
		k.Run(t, kafkaConfigs, append(topic, "--alter", "--add-config", "max.message.bytes=2000000,cleanup.policy=[compact,delete]")...)
		set := k.Run(t, kafkaConfigs, append(topic, "--describe")...)
		require.Regexp(t, `max.message.bytes=2000000 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000, DEFAULT_CONFIG:message.max.bytes=1048588\}`, set)
		require.Contains(t, set, "cleanup.policy=compact,delete")
		k.Run(t, kafkaConfigs, append(topic, "--alter", "--delete-config", "cleanup.policy,max.message.bytes")...)
		require.NotContains(t, k.Run(t, kafkaConfigs, append(topic, "--describe")...), "compact")
		require.Contains(t, k.Run(t, kafkaConfigs, append(topic, "--describe", "--all")...), "segment.bytes=1073741824")
		require.Contains(t, fails(t, kafkaConfigs, append(topic, "--alter", "--add-config", "bogus=1")...), "Unknown topic config name: bogus")
		k.Run(t, kafkaConfigs, "--entity-type", "brokers", "--entity-default", "--alter", "--add-config", "log.retention.ms=7200000")
		require.Contains(t, k.Run(t, kafkaConfigs, "--entity-type", "brokers", "--entity-default", "--describe"), "log.retention.ms=7200000")
		k.Run(t, harness.TopicCommand, "--create", "--topic", "by-default")
		require.Contains(t, k.Run(t, kafkaConfigs, "--entity-type", "topics", "--entity-name", "by-default", "--describe", "--all"), "retention.ms=7200000")
	})
	if t.Failed() { // the tools below wait for ever for a topic that is not there
		return
	}
	t.Run("console", func(t *testing.T) {
		lines := "a:1\nb:2\nc:3\n"
		process(t, dev.Bootstrap, strings.NewReader(lines), harness.ConsoleProducer, "--topic", "by-default", "--reader-property", "parse.key=true",
			"--reader-property", "key.separator=:", "--compression-codec", "gzip")
		out := process(t, dev.Bootstrap, nil, harness.ConsoleConsumer, "--topic", "by-default", "--partition", "0", "--offset", "1", "--max-messages", "2",
			"--formatter-property", "print.key=true", "--formatter-property", "print.offset=true", "--formatter-property", "print.partition=true")
		require.Equal(t, "Partition:0\tOffset:1\tb\t2\nPartition:0\tOffset:2\tc\t3\n", out)
		out = process(t, dev.Bootstrap, nil, harness.ConsoleConsumer, "--topic", "by-default", "--partition", "0", "--offset", "earliest", "--max-messages", "3")
		require.Equal(t, "1\n2\n3\n", out)
	})
	t.Run("internal topics", func(t *testing.T) {
		require.Equal(t, []string{"by-default", "t"}, sortedLines(k.Run(t, harness.TopicCommand, "--list")), "no group yet")
		process(t, dev.Bootstrap, nil, harness.ConsoleConsumer, "--topic", "by-default", "--group", "watched", "--from-beginning", "--max-messages", "3")
		require.Equal(t, []string{"__consumer_offsets", "by-default", "t"}, sortedLines(k.Run(t, harness.TopicCommand, "--list")))
		require.Regexp(t, `PartitionCount: 50\s+ReplicationFactor: 1\s+Configs: .*cleanup.policy=compact`,
			k.Run(t, harness.TopicCommand, "--describe", "--topic", "__consumer_offsets"))
		require.Contains(t, fails(t, harness.TopicCommand, "--delete", "--topic", "__consumer_offsets"), "cannot be changed")
		out := process(t, dev.Bootstrap, nil, harness.ConsoleConsumer, "--topic", "__consumer_offsets", "--from-beginning", "--max-messages", "1",
			"--formatter", "org.apache.kafka.tools.consumer.OffsetsMessageFormatter")
		require.Contains(t, out, `{"key":{"type":1,"data":{"group":"watched","topic":"by-default","partition":0}},"value":{"version":3,"data":{"offset":3,"leaderEpoch":-1`)
	})
	t.Run("kafka-get-offsets", func(t *testing.T) {
		offsets := func(time string) string {
			return strings.TrimSpace(k.Run(t, kafkaGetOffsets, "--topic", "by-default", "--time", time))
		}
		require.Equal(t, "by-default:0:3", offsets("latest"))
		require.Equal(t, "by-default:0:0", offsets("earliest"))
		require.Regexp(t, `^by-default:0:[012]$`, offsets("max-timestamp"))
		require.Equal(t, "by-default:0:0", offsets("1000"))
		require.Equal(t, []string{"by-default:0:3", "t:0:0", "t:1:0", "t:2:0", "t:3:0"}, sortedLines(k.Run(t, kafkaGetOffsets, "--exclude-internal-topics")))
	})
	t.Run("kafka-broker-api-versions", func(t *testing.T) {
		out := k.Run(t, kafkaAPIVersions)
		require.Contains(t, out, "Produce(0): 0 to 13 [usable: 13]")
		require.Contains(t, out, "Fetch(1): 4 to 18 [usable: 18]")
		require.Contains(t, out, "JoinGroup(11): 0 to 9 [usable: 9]")
		require.Contains(t, out, "ShareFetch(78): UNSUPPORTED")
	})
	t.Run("kafka-log-dirs", func(t *testing.T) {
		require.Regexp(t, `"partition":"by-default-0","size":[1-9]\d*,`, k.Run(t, kafkaLogDirs, "--describe", "--topic-list", "by-default"))
	})
	t.Run("kafka-cluster", func(t *testing.T) {
		r := k.TryPlain(t, kafkaCluster, "cluster-id", "--bootstrap-server", dev.Bootstrap)
		require.Zero(t, r.Code, r.All)
		require.Regexp(t, `^Cluster ID: \S+\n$`, r.Out)
		r = k.TryPlain(t, kafkaCluster, "list-endpoints", "--bootstrap-server", dev.Bootstrap)
		require.Zero(t, r.Code, r.All)
		require.Contains(t, r.Out, strings.Split(dev.Bootstrap, ":")[1])
	})
	t.Run("kafka-producer-perf-test", func(t *testing.T) {
		out := k.Run(t, kafkaProducerPerf, "--topic", "t", "--num-records", "20000", "--record-size", "500", "--throughput", "-1")
		require.Regexp(t, regexp.MustCompile(`(?m)^20000 records sent`), out)
		sum := 0
		for _, line := range sortedLines(k.Run(t, kafkaGetOffsets, "--topic", "t")) {
			var partition, end int
			_, err := fmt.Sscanf(line, "t:%d:%d", &partition, &end)
			require.NoError(t, err)
			sum += end
		}
		require.Equal(t, 20000, sum)
	})
	t.Run("kafka-verifiable-producer", func(t *testing.T) {
		out := process(t, dev.Bootstrap, nil, kafkaVerifiableWrite, "--topic", "by-default", "--max-messages", "100", "--acks", "-1")
		require.Contains(t, out, `"sent":100,"acked":100`)
		require.Equal(t, "by-default:0:103", strings.TrimSpace(k.Run(t, kafkaGetOffsets, "--topic", "by-default")))
	})
}
