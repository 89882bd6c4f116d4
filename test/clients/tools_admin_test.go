package clients

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// Main classes of Apache Kafka's tools for what is neither topics, records nor groups.
const (
	kafkaDeleteRecords      = "org.apache.kafka.tools.DeleteRecordsCommand"
	kafkaMetadataQuorum     = "org.apache.kafka.tools.MetadataQuorumCommand"
	kafkaFeatures           = "org.apache.kafka.tools.FeatureCommand"
	kafkaLeaderElection     = "org.apache.kafka.tools.LeaderElectionCommand"
	kafkaReassign           = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
	kafkaClientMetrics      = "org.apache.kafka.tools.ClientMetricsCommand"
	kafkaACLs               = "org.apache.kafka.tools.AclCommand"
	kafkaVerifiableConsumer = "org.apache.kafka.tools.VerifiableConsumer"
)

// file writes what a tool reads.
func file(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "in.json")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// TestTools_Admin: each tool does its main thing.
func TestTools_Admin(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, "--auto-create-topics=false")
	k := harness.StartTools(t, dev.Bootstrap)
	k.Run(t, harness.TopicCommand, "--create", "--topic", "t")
	process(t, dev.Bootstrap, nil, kafkaVerifiableWrite, "--topic", "t", "--max-messages", "100", "--acks", "-1")
	t.Run("kafka-verifiable-consumer", func(t *testing.T) {
		out := k.Run(t, kafkaVerifiableConsumer, "--topic", "t", "--group-id", "g", "--max-messages", "100", "--reset-policy", "earliest")
		require.Contains(t, out, `"name":"offsets_committed"`)
	})
	t.Run("kafka-delete-records", func(t *testing.T) {
		offsets := file(t, `{"partitions":[{"topic":"t","partition":0,"offset":1}],"version":1}`)
		out := k.Run(t, kafkaDeleteRecords, "--offset-json-file", offsets)
		require.Regexp(t, `partition: t-0\s+low_watermark: 1`, out)
		require.Contains(t, k.Run(t, kafkaGetOffsets, "--topic-partitions", "t:0", "--time", "earliest"), "t:0:1")
	})
	t.Run("kafka-metadata-quorum", func(t *testing.T) {
		status := k.Run(t, kafkaMetadataQuorum, "describe", "--status")
		require.Regexp(t, `ClusterId:\s+\S+\nLeaderId:\s+\d+\nLeaderEpoch:\s+\d+\nHighWatermark:\s+\d+\n`, status)
		require.Regexp(t, `Leader\s*$`, k.Run(t, kafkaMetadataQuorum, "describe", "--replication"))
	})
	t.Run("kafka-features", func(t *testing.T) {
		require.Regexp(t, `Feature: metadata.version\s+SupportedMinVersion: \S+\s+SupportedMaxVersion: \S+\s+FinalizedVersionLevel: 4.4-IV2`,
			k.Run(t, kafkaFeatures, "describe"))
	})
	t.Run("kafka-leader-election", func(t *testing.T) {
		require.Contains(t, k.Run(t, kafkaLeaderElection, "--election-type", "preferred", "--topic", "t", "--partition", "0"),
			"Valid replica already elected for partitions t-0")
		k.Run(t, kafkaLeaderElection, "--election-type", "preferred", "--all-topic-partitions")
	})
	t.Run("kafka-reassign-partitions", func(t *testing.T) {
		plan := file(t, `{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[1]}]}`)
		require.Contains(t, k.Run(t, kafkaReassign, "--reassignment-json-file", plan, "--execute"), "Successfully started partition reassignment for t-0")
		require.Contains(t, k.Run(t, kafkaReassign, "--list"), "No partition reassignments found.")
	})
	t.Run("kafka-client-metrics", func(t *testing.T) {
		k.Run(t, kafkaClientMetrics, "--alter", "--name", "m", "--metrics", "org.apache.kafka.producer.", "--interval", "60000")
		require.Contains(t, k.Run(t, kafkaClientMetrics, "--describe", "--name", "m"), "interval.ms=60000")
		require.Contains(t, k.Run(t, kafkaClientMetrics, "--list"), "m")
		k.Run(t, kafkaClientMetrics, "--delete", "--name", "m")
		require.NotContains(t, k.Run(t, kafkaClientMetrics, "--list"), "m")
	})
	t.Run("kafka-acls", func(t *testing.T) {
		require.Contains(t, k.Try(t, kafkaACLs, "--list").All, "No Authorizer is configured")
	})
}
