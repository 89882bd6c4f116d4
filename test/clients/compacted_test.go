package clients

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/test/harness"
)

// cleaningLimit bounds the wait for background jobs: two rounds of planning, 10 s apart, and the jobs.
const cleaningLimit = 3 * time.Minute

// passJob asks a consumer to read a topic as a group up to its end and to commit.
type passJob struct {
	Bootstrap string `json:"bootstrap"`
	Topic     string `json:"topic"`
	Group     string `json:"group"`
	Isolation string `json:"isolation"`
}

// TestConsumers_PassWhatIsGone: of a topic that was cleaned, ranges are gone between records and up to the high watermark:
// records without key, superseded and aborted ones, in one partition all there was. Every client passes them at
// both isolation levels, and its group has no lag then; `freshet consume --exit-at-end` ends.
func TestConsumers_PassWhatIsGone(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t, "--compact-after=100ms")
	left := goneTopic(t, dev, "gone")
	pass := map[string]*harness.Worker{
		"Java": harness.JavaWorker(t, "Passer"), "librdkafka": harness.PythonWorker(t, "passer.py"),
	}
	for name, worker := range pass {
		for _, isolation := range []string{"read_uncommitted", "read_committed"} {
			t.Run(name+" "+isolation, func(t *testing.T) {
				j := passJob{Bootstrap: dev.Bootstrap, Topic: "gone", Group: name + "-" + isolation, Isolation: isolation}
				var is struct{ Keys []string }
				require.NoError(t, worker.Call(t, j, &is))
				require.ElementsMatch(t, left, is.Keys)
				requireNoLag(t, dev.Bootstrap, j.Group)
			})
		}
	}
	for _, isolation := range []string{"--read-committed=false", "--read-committed"} {
		out := harness.CLI(t, dev.Bootstrap, nil, "consume", "gone", "--from", "earliest", "--exit-at-end", "--format", "%k ", isolation)
		require.ElementsMatch(t, left, strings.Fields(out))
	}
	t.Run("franz-go", func(t *testing.T) { franzPasses(t, dev.Bootstrap, "gone", left) })
}

// goneTopic makes a topic of three partitions, has it cleaned, and gives the keys of the records that are left.
func goneTopic(t *testing.T, dev *harness.Dev, topic string) (left []string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(dev.Bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.TransactionalID("gone"), kgo.DefaultProduceTopic(topic))
	require.NoError(t, err)
	defer client.Close()
	admin := kadm.NewClient(client)
	_, err = admin.CreateTopic(t.Context(), 3, 1, map[string]*string{
		"cleanup.policy": kadm.StringPtr("delete"), "min.cleanable.dirty.ratio": kadm.StringPtr("0"), // however little a first cleaning leaves
	}, topic)
	require.NoError(t, err)
	write := func(commit bool, partition int32, keys ...string) {
		require.NoError(t, client.BeginTransaction())
		for _, k := range keys {
			r := &kgo.Record{Partition: partition, Value: []byte("v")}
			if k != "" {
				r.Key = []byte(k)
			}
			require.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
		}
		require.NoError(t, client.EndTransaction(t.Context(), kgo.TransactionEndTry(commit)))
	}
	plain, err := kgo.NewClient(kgo.SeedBrokers(dev.Bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(topic))
	require.NoError(t, err)
	defer plain.Close()
	keyless := func(partition int32) {
		for range 5 {
			require.NoError(t, plain.ProduceSync(t.Context(), &kgo.Record{Partition: partition, Value: []byte("no key")}).FirstErr())
		}
	}
	write(true, 0, "a", "b", "a", "b", "", "", "c") // gaps, and at the end nothing
	keyless(0)
	write(true, 1, "d", "e") // an aborted transaction at the end
	write(false, 1, "d", "f", "g")
	keyless(2) // nothing at all
	require.NoError(t, alter(t, admin, topic, "cleanup.policy", "compact"))
	awaitClean(t, dev, 2+12+3)
	for partition := range int32(3) {
		l := fetchPartition(t, dial(t, dev.Bootstrap), topic, partition, 0)
		require.True(t, isClean(t, l), "partition %d: %q", partition, list(t, l.batches, records))
	}
	return []string{"a", "b", "c", "d", "e"}
}

func alter(t *testing.T, admin *kadm.Client, topic, name, value string) error {
	t.Helper()
	answers, err := admin.AlterTopicConfigs(t.Context(), []kadm.AlterConfig{{Name: name, Value: &value}}, topic)
	if err != nil {
		return err
	}
	return answers[0].Err
}

// awaitClean waits until cleaning has removed so many records. Agents go on reading what they know for a
// while, which is sound, so the process is started again.
func awaitClean(t *testing.T, dev *harness.Dev, removed float64) {
	t.Helper()
	reached := func(name string, want float64, labels ...string) {
		for end := time.Now().Add(cleaningLimit); ; {
			is, err := harness.Metric(dev.HTTP, name, labels...)
			if err == nil && is >= want {
				require.Equal(t, want, is, "%s %q", name, labels)
				return
			}
			require.True(t, time.Now().Before(end), "%s %q: %v of %v (%v)", name, labels, is, want, err)
			time.Sleep(200 * time.Millisecond) // sleeps: background jobs run by their own clock
		}
	}
	reached("freshet_clean_records_removed_total", removed)
	ran, err := harness.Metric(dev.HTTP, "freshet_clean_partitions_total")
	require.NoError(t, err)
	reached("freshet_jobs_completed_total", ran, `kind="clean"`) // handed in
	dev.Kill()
	dev.Restart()
}

// isClean tells that there is no record without key, or of an aborted transaction, or twice of a key.
func isClean(t *testing.T, l storedLog) bool {
	t.Helper()
	seen := make(map[string]bool)
	for _, b := range l.batches {
		for r, err := range kafkaproto.Records(b, 1<<20) {
			require.NoError(t, err)
			aborted := slices.ContainsFunc(l.aborted, func(a extent.Aborted) bool {
				return b.Transactional() && b.ProducerID() == a.ProducerID && a.First <= r.Offset && r.Offset < a.Last
			})
			if !b.Control() && (r.NullKey || seen[string(r.Key)] || aborted) {
				return false
			}
			seen[string(r.Key)] = true
		}
	}
	return true
}

func requireNoLag(t *testing.T, bootstrap, group string) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	require.NoError(t, err)
	defer client.Close()
	lags, err := kadm.NewClient(client).Lag(t.Context(), group)
	require.NoError(t, err)
	require.NoError(t, lags.Error())
	lag := lags[group]
	require.Len(t, lag.Lag.Sorted(), 3)
	require.Zero(t, lag.Lag.Total())
}

// franzPasses reads at both isolation levels with franz-go, which tells nobody its position: a record behind what is gone
// must come, after which there is no lag.
func franzPasses(t *testing.T, bootstrap, topic string, left []string) {
	t.Helper()
	producer, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(topic))
	require.NoError(t, err)
	defer producer.Close()
	readers := make(map[string]*kgo.Client)
	for _, isolation := range []kgo.IsolationLevel{kgo.ReadUncommitted(), kgo.ReadCommitted()} {
		group := fmt.Sprint("franz-", len(readers))
		reader, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
			kgo.FetchIsolationLevel(isolation), kgo.DisableAutoCommit())
		require.NoError(t, err)
		defer reader.Close()
		readers[group] = reader
		require.ElementsMatch(t, left, readKeys(t, reader, len(left)))
	}
	var added []string
	for partition := range int32(3) {
		key := fmt.Sprint("behind ", partition)
		require.NoError(t, producer.ProduceSync(t.Context(), &kgo.Record{Partition: partition, Key: []byte(key)}).FirstErr())
		added = append(added, key)
	}
	for group, reader := range readers {
		require.ElementsMatch(t, added, readKeys(t, reader, len(added)))
		require.NoError(t, reader.CommitUncommittedOffsets(t.Context()))
		requireNoLag(t, bootstrap, group)
	}
}

func readKeys(t *testing.T, client *kgo.Client, n int) (keys []string) {
	t.Helper()
	for len(keys) < n {
		fetches := client.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) { keys = append(keys, string(r.Key)) })
	}
	return keys
}
