package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/test/harness"
)

// TestDev_GroupCommands: a group of each protocol is listed and described with its member and lag, its offsets can be
// reset and it can be deleted once its member is gone, and not before.
func TestDev_GroupCommands(t *testing.T) {
	t.Parallel()
	d := harness.StartDev(t, "--group-initial-rebalance-delay-ms=0")
	cli := func(in string, args ...string) string {
		t.Helper()
		return harness.CLI(t, d.Bootstrap, strings.NewReader(in), args...)
	}
	refused := func(want string, args ...string) {
		t.Helper()
		r := harness.TryCLI(t, d.Bootstrap, nil, args...)
		require.Equal(t, 1, r.Code, r.Err)
		require.Contains(t, r.Err, want)
	}
	const header = "GROUP  PROTOCOL  STATE\n"
	require.Equal(t, header, cli("", "group", "list"))
	cli("", "topic", "create", "lines", "--partitions", "2")
	cli(numbers(1, 100), "produce", "lines", "--partition", "1")

	member, err := kgo.NewClient(kgo.SeedBrokers(d.Bootstrap), kgo.ConsumerGroup("old"), kgo.ConsumeTopics("lines"),
		kgo.DisableAutoCommit(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.ClientID("reader"))
	require.NoError(t, err)
	defer member.Close()
	for records := 0; records < 100; {
		fetches := member.PollFetches(t.Context())
		require.NoError(t, fetches.Err())
		records += fetches.NumRecords()
	}
	require.NoError(t, member.CommitUncommittedOffsets(t.Context()))
	join := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	join.Group, join.MemberID, join.RebalanceTimeoutMillis = "new", "00000000-0000-4000-8000-000000000001", 60_000
	join.SubscribedTopicNames, join.Topics = []string{"lines"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	joined, err := join.RequestWith(t.Context(), member)
	require.NoError(t, err)
	require.Zero(t, joined.ErrorCode)

	require.Regexp(t, `^GROUP  PROTOCOL  STATE\nnew    consumer  \w+\nold    classic   Stable\n$`, cli("", "group", "list"))
	require.Equal(t, header, cli("", "group", "list", "--state", "Empty,Dead"))
	described := cli("", "group", "describe", "old", "new")
	require.Contains(t, described, "group old, classic protocol, Stable, assignor cooperative-sticky, 1 member\n")
	require.Regexp(t, `(?m)^reader-\S+ +- +reader +127.0.0.1 +2$`, described)
	require.Regexp(t, `(?m)^lines +1 +100 +100 +0 +reader-\S+$`, described)
	require.Regexp(t, `(?m)^group new, consumer protocol, \w+, assignor uniform, 1 member$`, described)
	var groups []struct {
		Group, Protocol string
		Offsets         []struct{ Partition, Committed, End, Lag int64 }
	}
	require.NoError(t, json.Unmarshal([]byte(cli("", "group", "describe", "old", "-o", "json")), &groups))
	require.Equal(t, "old", groups[0].Group)
	require.EqualValues(t, 100, groups[0].Offsets[1].Committed)
	refused(`group "none" does not exist`, "group", "describe", "none")
	refused(`group "old" has members`, "group", "delete", "old")
	refused(`group "old" has members`, "group", "reset-offsets", "old", "--execute", "--to", "earliest")

	member.Close()
	await(t, func() bool { return strings.Contains(cli("", "group", "list"), "old    classic   Empty") })
	require.Contains(t, cli("", "group", "reset-offsets", "old", "--to", "40"), "lines  1          100     40")
	require.Contains(t, cli("", "group", "describe", "old"), "lines  1          100        100         0")
	require.NotContains(t, cli("", "group", "reset-offsets", "old", "--execute", "--to", "40", "--topic", "lines", "-p", "1"), "lines  0")
	require.Contains(t, cli("", "group", "describe", "old"), "lines  1          40         100         60")
	cli("", "group", "reset-offsets", "old", "--execute", "--to", "4000")
	require.Contains(t, cli("", "group", "describe", "old"), "lines  1          100        100         0", "no further than the end")
	cli("", "group", "reset-offsets", "old", "--execute", "--to", time.Unix(0, 0).UTC().Format(time.RFC3339))
	require.Contains(t, cli("", "group", "describe", "old"), "lines  1          0          100         100")
	refused(`topic "absent" does not exist`, "group", "reset-offsets", "old", "--to", "latest", "--topic", "absent")
	require.Equal(t, "deleted group old\n", cli("", "group", "delete", "old"))
	refused(`group "old" does not exist`, "group", "delete", "old")
	r := harness.TryCLI(t, d.Bootstrap, nil, "group", "reset-offsets", "old", "--to", "newest")
	require.Equal(t, 2, r.Code)
	require.Contains(t, r.Err, `--to "newest"`)
}

// await waits for what takes a moment.
func await(t *testing.T, ready func() bool) {
	t.Helper()
	require.Eventually(t, ready, time.Minute, 100*time.Millisecond)
}
