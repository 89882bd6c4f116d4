package ecosystem

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestTools_Transactions runs kafka-transactions on an open transaction: it is listed and described, it is not
// hanging, and its part in one partition can be aborted from outside.
func TestTools_Transactions(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	b.create(t, "t", 2)
	b.produce(t, "t", 1, numbers(5)...)
	l := startTools(t, b)
	run := func(args ...string) string { return l.run(t, kafkaTransactions, args...) }
	producer := b.client(t, kgo.TransactionalID("teller"), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, producer.BeginTransaction())
	for p := range int32(2) {
		require.NoError(t, producer.ProduceSync(within(t), &kgo.Record{Topic: "t", Partition: p, Value: []byte("open")}).FirstErr())
	}
	id, epoch, err := producer.ProducerID(within(t))
	require.NoError(t, err)

	require.Regexp(t, fmt.Sprintf(`(?m)^teller\s+\d+\s+%d\s+Ongoing\s*$`, id), run("list"))
	described := run("describe", "--transactional-id", "teller")
	require.Regexp(t, fmt.Sprintf(`(?m)^\d+\s+teller\s+%d\s+%d\s+Ongoing\s+\d+\s+\d+\s+\d+\s+t-[01],t-[01]\s*$`, id, epoch), described)
	require.Regexp(t, fmt.Sprintf(`(?m)^%d\s+%d\s+-1\s+0\s+\d+\s+5\s*$`, id, epoch), run("describe-producers", "--topic", "t", "--partition", "1"))
	require.NotContains(t, run("find-hanging", "--topic", "t", "--max-transaction-timeout", "0"), fmt.Sprint(id))
	code, out := l.try(t, kafkaTransactions, "describe", "--transactional-id", "nobody")
	require.NotZero(t, code)
	require.Contains(t, out, "the ID could not be found")

	require.Len(t, b.committed(t, "t"), 5)
	code, out = l.try(t, kafkaTransactions, "abort", "--topic", "t", "--partition", "1", "--start-offset", "3")
	require.NotZero(t, code)
	require.Contains(t, out, "Could not find any open transactions starting at offset 3")
	run("abort", "--topic", "t", "--partition", "1", "--start-offset", "5")
	require.Regexp(t, fmt.Sprintf(`(?m)^%d\s+%d\s+\d+\s+0\s+\d+\s+None\s*$`, id, epoch), run("describe-producers", "--topic", "t", "--partition", "1"))
	b.produce(t, "t", 1, "after")
	require.Len(t, b.committed(t, "t"), 6, "nothing holds readers of partition 1 back, and the aborted record is not theirs")

	next := b.client(t, kgo.TransactionalID("teller"))
	require.NoError(t, next.BeginTransaction())
	_, newEpoch, err := next.ProducerID(within(t))
	require.NoError(t, err)
	require.NotEqual(t, epoch, newEpoch)
	require.NotRegexp(t, regexp.MustCompile(`teller.*Ongoing`), run("list"), "its successor ended the rest of it")
	require.Len(t, b.committed(t, "t"), 6)
	require.NoError(t, next.EndTransaction(within(t), kgo.TryAbort))
}
