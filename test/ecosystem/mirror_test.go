package ecosystem

import (
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

// TestMirrorMaker moves topics and groups from Apache Kafka to the broker under test: records arrive in order, and the
// offsets of a group are translated, so that its consumers go on where they were.
func TestMirrorMaker(t *testing.T) {
	t.Parallel()
	source, target := startKafka(t), startBroker(t)
	source.create(t, "orders", 2)
	// Offsets at the target are others than at the source, whose first records are gone.
	source.produce(t, "orders", 0, numbers(10)...)
	deleteTo(t, source, "orders", 0, 10)
	source.produce(t, "orders", 0, numbers(40)...)
	source.produce(t, "orders", 1, numbers(30)...)
	config := properties{
		"clusters": "source,target", "source.bootstrap.servers": source.bootstrap, "target.bootstrap.servers": target.bootstrap,
		"source->target.enabled": "true", "target->source.enabled": "false", "source->target.topics": "orders", "source->target.groups": "billing",
		"sync.group.offsets.enabled": "true", "sync.group.offsets.interval.seconds": "1", "emit.checkpoints.interval.seconds": "1",
		"refresh.topics.interval.seconds": "5", "refresh.groups.interval.seconds": "1", "offset.lag.max": "0", "plugin.discovery": "service_load",
		"replication.factor": "1", "checkpoints.topic.replication.factor": "1", "heartbeats.topic.replication.factor": "1",
		"offset-syncs.topic.replication.factor": "1",
	}
	for _, c := range []string{"source", "target"} {
		maps.Copy(config, properties{
			c + ".config.storage.replication.factor": "1", c + ".offset.storage.replication.factor": "1", c + ".status.storage.replication.factor": "1",
			c + ".offset.storage.partitions": "1", c + ".status.storage.partitions": "1", c + ".offset.flush.interval.ms": "1000",
		})
	}
	p := harness.ConnectProcess(t, "mirrormaker", nil, "org.apache.kafka.connect.mirror.MirrorMaker", config.write(t, "mm2.properties"))
	p.Launch()

	awaitEnds(t, target, "source.orders", 40, 30)
	commit(t, source, "billing", "orders", 50, 30)
	admin := target.admin(t)
	awaitLong(t, "the offsets of the group arrive", func() bool {
		at, err := admin.FetchOffsets(within(t), "billing")
		first, _ := at.Lookup("source.orders", 0)
		second, _ := at.Lookup("source.orders", 1)
		return err == nil && first.At == 40 && second.At == 30
	})

	source.produce(t, "orders", 0, numbers(5)...)
	awaitEnds(t, target, "source.orders", 45, 30)
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, goOn(t, target, "billing", "source.orders", 0, 5))
	for partition, want := range [][]string{append(numbers(40), numbers(5)...), numbers(30)} {
		var got []string
		for _, r := range target.committed(t, "source.orders") {
			if r.Partition == int32(partition) {
				got = append(got, string(r.Value))
			}
		}
		require.Equal(t, want, got)
	}
	terminate(t, p)
	require.NotEmpty(t, target.values(t, "source.checkpoints.internal"))
	require.NotEmpty(t, target.values(t, "heartbeats"))
}

// deleteTo deletes a partition's records before an offset.
func deleteTo(t *testing.T, b broker, topic string, partition int32, offset int64) {
	t.Helper()
	var to kadm.Offsets
	to.AddOffset(topic, partition, offset, -1)
	deleted, err := b.admin(t).DeleteRecords(within(t), to)
	require.NoError(t, err)
	require.NoError(t, deleted.Error())
}

// commit commits offsets of the partitions 0, 1, ... for a group.
func commit(t *testing.T, b broker, group, topic string, offsets ...int64) {
	t.Helper()
	var all kadm.Offsets
	for p, o := range offsets {
		all.AddOffset(topic, int32(p), o, -1)
	}
	require.NoError(t, b.admin(t).CommitAllOffsets(within(t), group, all))
}

// awaitEnds waits until the partitions 0, 1, ... of a topic have these ends.
func awaitEnds(t *testing.T, b broker, topic string, ends ...int64) {
	t.Helper()
	admin := b.admin(t)
	awaitLong(t, fmt.Sprintf("%s ends at %v", topic, ends), func() bool {
		listed, err := admin.ListEndOffsets(within(t), topic)
		for p, end := range ends {
			is, ok := listed.Lookup(topic, int32(p))
			if err != nil || !ok || is.Err != nil || is.Offset < end {
				return false
			}
		}
		return true
	})
}

// goOn consumes with a group and gives the first n values it reads of a partition.
func goOn(t *testing.T, b broker, group, topic string, partition int32, n int) []string {
	t.Helper()
	client := b.client(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic))
	defer client.Close()
	var values []string
	for ctx := within(t); len(values) < n; {
		fetches := client.PollFetches(ctx)
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Partition == partition {
				values = append(values, string(r.Value))
			}
		})
	}
	return values
}
