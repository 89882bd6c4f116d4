package clients

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/test/harness"
)

// stepGroup are steps that follow each other on one connection to each side.
type stepGroup struct {
	name  string
	steps []step
}

// TestDifferential sends the same requests to Freshet and to Apache Kafka, in every version that Freshet serves:
// the answers have the same codes and fields, but for the differences that a step lists with their reasons.
func TestDifferential(t *testing.T) {
	t.Parallel()
	kafka := harness.StartKafka(t)
	sides := differentialSides(t, kafka)
	playGroups(t, sides, []stepGroup{
		{"ApiVersions", apiVersionsSteps()},
		{"Metadata", metadataSteps()},
		{"Produce", produceSteps()},
		{"ListOffsets", listOffsetsSteps()},
		{"Fetch", fetchSteps()},
		{"Epochs", epochSteps()},
		{"Topics", topicSteps()},
		{"Configs", configSteps()},
		{"Cluster", clusterSteps()},
		{"Delete records", deleteRecordSteps()},
		{"Replicas", replicaSteps()},
		{"Resources", resourceSteps()},
		{"Quorum", quorumSteps()},
		{"Security", securitySteps()},
		{"Telemetry", telemetrySteps()},
		{"Offsets", offsetSteps()},
		{"Classic groups", classicGroupSteps()},
		{"Group administration", groupAdminSteps()},
		{"Consumer groups", consumerGroupSteps()},
		{"Bombs", bombSteps(t, sides)},
	})
	t.Run("Refused", func(t *testing.T) { compareRefusals(t, sides) })
	t.Run("Internal topics", func(t *testing.T) { watchInternal(t, sides) })
}

// TestDifferential_PreviousRelease is TestDifferential against harness.PreviousKafka, for the APIs of producers and consumers
// that both releases have in the same versions.
func TestDifferential_PreviousRelease(t *testing.T) {
	t.Parallel()
	playGroups(t, differentialSides(t, harness.StartPreviousKafka(t)), []stepGroup{
		{"Metadata", metadataSteps()},
		{"Produce", produceSteps()},
		{"ListOffsets", listOffsetsSteps()},
		{"Fetch", fetchSteps()},
		{"Epochs", epochSteps()},
		{"Offsets", offsetSteps()},
		{"Classic groups", classicGroupSteps()},
	})
}

// differentialSides starts Freshet beside Kafka, with the topics of the steps on both.
func differentialSides(t *testing.T, kafka *harness.Kafka) []*side {
	t.Helper()
	dev := harness.StartDev(t, "--auto-create-topics=false")
	sides := []*side{newSide(t, dev.Bootstrap), newSide(t, kafka.Bootstrap)}
	for _, s := range sides {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.TimeoutMillis = 30_000
		req.Topics = append(req.Topics,
			newTopic("plain", 3), newTopic("stamped", 1, "message.timestamp.type", "LogAppendTime"),
			newTopic("compacted", 1, "cleanup.policy", "compact"), newTopic("small", 1, "max.message.bytes", "200"),
			newTopic("window", 1, "message.timestamp.before.max.ms", "3600000", "message.timestamp.after.max.ms", "3600000"),
			newTopic("read", 1), newTopic("empty", 1), newTopic("doomed", 1),
		)
		created := ask[*kmsg.CreateTopicsResponse](t, s.conn, req, 7)
		for _, topic := range created.Topics {
			require.Zero(t, topic.ErrorCode, code(topic.ErrorCode))
			for p := range topic.NumPartitions {
				awaitLeader(t, s, topic.Topic, p)
			}
		}
		s.learn(t)
	}
	awaitProducerIDs(t, sides[1])
	awaitGroups(t, sides[1])
	return sides
}

// playGroups runs the steps. Every other group sends a byte after the last field of its requests. Both sides ignore it.
func playGroups(t *testing.T, sides []*side, groups []stepGroup) {
	t.Helper()
	for i, group := range groups {
		for _, s := range sides {
			s.conn.trailing = i % 2
		}
		t.Run(group.name, func(t *testing.T) {
			for _, st := range group.steps {
				t.Run(st.name, func(t *testing.T) { st.run(t, sides[0], sides[1]) })
			}
		})
	}
}

// newTopic asks for a topic; pairs are configs.
func newTopic(name string, partitions int32, pairs ...string) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for i := 0; i < len(pairs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = pairs[i], &pairs[i+1]
		topic.Configs = append(topic.Configs, c)
	}
	return topic
}

// awaitProducerIDs waits until Kafka has its first block of producer ids: until then it answers a retriable error.
func awaitProducerIDs(t *testing.T, kafka *side) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for ask[*kmsg.InitProducerIDResponse](t, kafka.conn, kmsg.NewPtrInitProducerIDRequest(), 4).ErrorCode != 0 {
		require.True(t, time.Now().Before(end), "no producer ids")
	}
}

// awaitLeader waits until a partition is served: Kafka's broker begins a moment after the topic was created.
func awaitLeader(t *testing.T, s *side, topic string, partition int32) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		resp := ask[*kmsg.ListOffsetsResponse](t, s.conn, listOffset(topic, partition, -1), 7)
		if resp.Topics[0].Partitions[0].ErrorCode == 0 {
			return
		}
		require.True(t, time.Now().Before(end), "%s %d has no leader", topic, partition)
	}
}
