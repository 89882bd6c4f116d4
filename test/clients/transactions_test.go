package clients

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/freshet-io/freshet/test/harness"
)

// tellerJob is the life of a transactional producer: a transaction committed, one aborted, a successor that fences it,
// and the successor moving count records from source to sink with the offsets of group.
type tellerJob struct {
	Bootstrap string `json:"bootstrap"`
	Name      string `json:"name"`
	Topic     string `json:"topic"` // two partitions
	Source    string `json:"source"`
	Sink      string `json:"sink"`
	Group     string `json:"group"`
	Count     int    `json:"count"`
}

// transactionLimit bounds one family's part.
const transactionLimit = 2 * time.Minute

// TestTransactions: every client family commits, aborts, fences and moves records exactly once. franz-go does so in
// both protocols, Java in the second, librdkafka in the first.
func TestTransactions(t *testing.T) {
	t.Parallel()
	dev := harness.StartDev(t)
	for name, tell := range map[string]func(t *testing.T, j tellerJob) (fenced bool){
		"Java":                   inWorker(harness.JavaWorker(t, "Tellers")),
		"librdkafka":             inWorker(harness.PythonWorker(t, "tellers.py")),
		"franz-go":               inProcess(),
		"franz-go as Kafka 3.8s": inProcess(kgo.MaxVersions(kversion.V3_8_0())),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), transactionLimit)
			defer cancel()
			id := fmt.Sprintf("%x", name)
			j := tellerJob{
				Bootstrap: dev.Bootstrap, Name: "tx-" + id, Topic: "topic-" + id, Source: "source-" + id, Sink: "sink-" + id,
				Group: "group-" + id, Count: 10,
			}
			client, err := kgo.NewClient(kgo.SeedBrokers(dev.Bootstrap))
			require.NoError(t, err)
			defer client.Close()
			admin := kadm.NewClient(client)
			for topic, partitions := range map[string]int32{j.Topic: 2, j.Source: 1, j.Sink: 2} {
				created, err := admin.CreateTopic(ctx, partitions, 1, nil, topic)
				require.NoError(t, err)
				require.NoError(t, created.Err)
			}
			var want []string
			for n := range j.Count {
				value := fmt.Sprint("record ", n)
				want = append(want, value)
				require.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: j.Source, Value: []byte(value)}).FirstErr())
			}
			require.True(t, tell(t, j), "the first producer goes on beside its successor")
			require.Equal(t, []string{"committed 0", "committed 1"}, committedValues(ctx, t, dev.Bootstrap, j.Topic, 2))
			require.Equal(t, want, committedValues(ctx, t, dev.Bootstrap, j.Sink, 2))
			offsets, err := admin.FetchOffsets(ctx, j.Group)
			require.NoError(t, err)
			at, ok := offsets.Lookup(j.Source, 0)
			require.True(t, ok)
			require.EqualValues(t, j.Count, at.At)
		})
	}
}

func inWorker(w *harness.Worker) func(t *testing.T, j tellerJob) bool {
	return func(t *testing.T, j tellerJob) bool {
		t.Helper()
		var out struct{ Fenced bool }
		require.NoError(t, w.Call(t, j, &out))
		return out.Fenced
	}
}

func inProcess(more ...kgo.Opt) func(t *testing.T, j tellerJob) bool {
	return func(t *testing.T, j tellerJob) bool {
		t.Helper()
		return franzTells(t, j, more...)
	}
}

func franzTells(t *testing.T, j tellerJob, more ...kgo.Opt) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), transactionLimit)
	defer cancel()
	producer := func() *kgo.Client {
		client, err := kgo.NewClient(append([]kgo.Opt{
			kgo.SeedBrokers(j.Bootstrap), kgo.TransactionalID(j.Name), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		}, more...)...)
		require.NoError(t, err)
		t.Cleanup(client.Close)
		return client
	}
	send := func(client *kgo.Client, partition int32, value string) error {
		return client.ProduceSync(ctx, &kgo.Record{Topic: j.Topic, Partition: partition, Value: []byte(value)}).FirstErr()
	}
	first := producer()
	require.NoError(t, first.BeginTransaction())
	require.NoError(t, send(first, 0, "committed 0"))
	require.NoError(t, send(first, 1, "committed 1"))
	require.NoError(t, first.EndTransaction(ctx, kgo.TryCommit))
	require.NoError(t, first.BeginTransaction())
	require.NoError(t, send(first, 0, "aborted"))
	require.NoError(t, first.EndTransaction(ctx, kgo.TryAbort))
	second := producer()
	_, _, err := second.ProducerID(ctx)
	require.NoError(t, err)
	require.NoError(t, first.BeginTransaction())
	fenced := send(first, 0, "fenced") != nil || first.EndTransaction(ctx, kgo.TryCommit) != nil
	second.Close()
	franzMoves(ctx, t, j, more...)
	return fenced
}

// franzMoves moves the source to the sink, with its offsets.
func franzMoves(ctx context.Context, t *testing.T, j tellerJob, more ...kgo.Opt) {
	t.Helper()
	session, err := kgo.NewGroupTransactSession(append([]kgo.Opt{
		kgo.SeedBrokers(j.Bootstrap), kgo.TransactionalID(j.Name), kgo.ConsumerGroup(j.Group), kgo.ConsumeTopics(j.Source),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}, more...)...)
	require.NoError(t, err)
	defer session.Close()
	for moved := 0; moved < j.Count; {
		fetches := session.PollRecords(ctx, 3)
		require.NoError(t, fetches.Err0())
		require.NoError(t, session.Begin())
		var records []*kgo.Record
		for _, r := range fetches.Records() {
			records = append(records, &kgo.Record{Topic: j.Sink, Value: r.Value})
		}
		require.NoError(t, session.ProduceSync(ctx, records...).FirstErr())
		committed, err := session.End(ctx, kgo.TryCommit)
		require.NoError(t, err)
		if committed {
			moved += len(records)
		}
	}
}

// committedValues reads what a reader of committed records sees of a topic, up to its end as of now, sorted.
func committedValues(ctx context.Context, t *testing.T, bootstrap, topic string, partitions int32) (values []string) {
	t.Helper()
	for p := range partitions {
		client, err := kgo.NewClient(
			kgo.SeedBrokers(bootstrap), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().AtStart()}}),
		)
		require.NoError(t, err)
		ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, topic)
		require.NoError(t, err)
		end, _ := ends.Lookup(topic, p)
		for at := int64(0); at < end.Offset; {
			fetches := client.PollFetches(ctx)
			require.NoError(t, fetches.Err0())
			for _, r := range fetches.Records() {
				at = max(at, r.Offset+1)
				if !r.Attrs.IsControl() {
					values = append(values, string(r.Value))
				}
			}
		}
		client.Close()
	}
	slices.Sort(values)
	return values
}
