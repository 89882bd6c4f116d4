package ecosystem

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/test/harness"
)

// Main classes of the tools for groups and transactions; the others are test/clients'.
const (
	kafkaConsumerGroups     = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
	kafkaGroups             = "org.apache.kafka.tools.GroupsCommand"
	kafkaTransactions       = "org.apache.kafka.tools.TransactionsCommand"
	kafkaVerifiableConsumer = "org.apache.kafka.tools.VerifiableConsumer"
	kafkaConsumerPerf       = "org.apache.kafka.tools.ConsumerPerformance"
)

// tools runs Apache Kafka's command-line tools against one broker.
type tools struct{ *harness.Tools }

func startTools(t *testing.T, b broker) tools {
	t.Helper()
	return tools{harness.StartTools(t, b.bootstrap)}
}

// try gives the exit code and all output of a tool.
func (l tools) try(t *testing.T, tool string, args ...string) (int, string) {
	t.Helper()
	r := l.Try(t, tool, args...)
	return r.Code, r.All
}

// run gives all output of a tool that ends well.
func (l tools) run(t *testing.T, tool string, args ...string) string {
	t.Helper()
	code, out := l.try(t, tool, args...)
	require.Zero(t, code, "%s %v\n%s", tool, args, out)
	return out
}

// numbers gives the values 0 to n-1.
func numbers(n int) []string {
	var all []string
	for i := range n {
		all = append(all, strconv.Itoa(i))
	}
	return all
}

// TestTools_Groups runs the command-line tools that belong to groups.
func TestTools_Groups(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	b.create(t, "t", 2)
	b.produce(t, "t", 0, numbers(10)...)
	b.produce(t, "t", 1, numbers(10)...)
	l := startTools(t, b)

	_ = t.Run("kafka-verifiable-consumer, classic protocol", func(t *testing.T) {
		verify(t, l.run(t, kafkaVerifiableConsumer, "--topic", "t", "--group-id", "classic", "--max-messages", "20", "--session-timeout", "10000"))
	}) && t.Run("kafka-verifiable-consumer, consumer protocol", func(t *testing.T) {
		verify(t, l.run(t, kafkaVerifiableConsumer, "--topic", "t", "--group-id", "modern", "--max-messages", "20", "--group-protocol", "consumer"))
	}) && t.Run("kafka-consumer-perf-test", func(t *testing.T) {
		out := l.run(t, kafkaConsumerPerf, "--topic", "t", "--group", "perf", "--messages", "20", "--timeout", "30000")
		require.Contains(t, out, "start.time, end.time, data.consumed.in.MB")
		require.Regexp(t, `, 20, \d+\.\d+, \d+, \d+, `, out)
	}) && t.Run("kafka-console-consumer of a group", func(t *testing.T) { consoleOfGroup(t, b, l) }) &&
		t.Run("kafka-groups", func(t *testing.T) {
			out := l.run(t, kafkaGroups, "--list")
			require.Regexp(t, `(?m)^classic\s+Classic\s+consumer\s*$`, out)
			require.Regexp(t, `(?m)^modern\s+Consumer\s+consumer\s*$`, out)
			require.NotContains(t, l.run(t, kafkaGroups, "--list", "--group-type", "classic"), "modern")
		}) &&
		t.Run("kafka-consumer-groups", func(t *testing.T) { consumerGroups(t, b, l) })
}

// verify checks what the verifiable consumer says about reading both partitions.
func verify(t *testing.T, out string) {
	t.Helper()
	require.Contains(t, out, `"name":"partitions_assigned","partitions":[{"topic":"t","partition":0},{"topic":"t","partition":1}]`)
	for p := range 2 {
		require.Regexp(t, fmt.Sprintf(`"name":"offsets_committed",.*"topic":"t","partition":%d,"offset":10\b.*"success":true`, p), out)
	}
	require.NotContains(t, out, `"success":false`)
	require.Contains(t, out, "shutdown_complete")
}

// consoleOfGroup: a second console consumer of a group goes on where the first one ended.
func consoleOfGroup(t *testing.T, b broker, l tools) {
	t.Helper()
	b.create(t, "one", 1)
	b.produce(t, "one", 0, numbers(10)...)
	out := l.run(t, harness.ConsoleConsumer, "--topic", "one", "--group", "console", "--from-beginning", "--max-messages", "7")
	require.Contains(t, out, "0\n1\n2\n3\n4\n5\n6\n")
	var rest bytes.Buffer
	harness.Java(t, nil, &rest, harness.ConsoleConsumer, "--bootstrap-server", b.bootstrap, "--topic", "one", "--group", "console", "--max-messages", "3")
	require.Equal(t, "7\n8\n9\n", rest.String())
}

// consumerGroups goes through what kafka-consumer-groups does. The groups "classic" and "modern" have read all of t and
// are empty.
func consumerGroups(t *testing.T, b broker, l tools) {
	t.Helper()
	live := joinLive(t, b)
	group := func(name string, args ...string) []string { return append([]string{"--group", name}, args...) }
	run := func(args ...string) string { return l.run(t, kafkaConsumerGroups, args...) }

	t.Run("list", func(t *testing.T) {
		states := run("--list", "--state")
		require.Regexp(t, `(?m)^classic\s+Empty\s*$`, states)
		require.Regexp(t, `(?m)^modern\s+Empty\s*$`, states)
		require.Regexp(t, `(?m)^live\s+Stable\s*$`, states)
		stable := run("--list", "--state", "stable")
		require.Regexp(t, `(?m)^live\s+Stable\s*$`, stable)
		require.NotRegexp(t, `(?m)^(classic|modern)`, stable)
		require.NotRegexp(t, `(?m)^classic`, run("--list", "--type", "consumer"))
	})
	t.Run("describe", func(t *testing.T) {
		for _, name := range []string{"classic", "modern"} {
			out := run("--describe", "--group", name)
			require.Contains(t, out, "Consumer group '"+name+"' has no active members.")
			require.Regexp(t, name+`\s+t\s+0\s+10\s+10\s+0\s+-\s+-\s+-`, out)
			require.Regexp(t, name+`\s+t\s+1\s+10\s+10\s+0\s+-`, out)
		}
		out := run(group("live", "--describe")...)
		for p := range 2 {
			require.Regexp(t, fmt.Sprintf(`live\s+t\s+%d\s+10\s+10\s+0\s+tester-\S+\s+/127.0.0.1\s+tester`, p), out)
		}
		_, out = l.try(t, kafkaConsumerGroups, group("nowhere", "--describe")...)
		require.Regexp(t, "(?s)nowhere.*not found", out)
	})
	t.Run("members and state", func(t *testing.T) {
		out := run(group("live", "--describe", "--members", "--verbose")...)
		require.Len(t, regexp.MustCompile(`(?m)^live\s+tester-\S+.*\bt(:|\()[01]`).FindAllString(out, -1), 2, out)
		out = run(group("live", "--describe", "--state")...)
		require.Regexp(t, `live\s+127.0.0.1:\d+\s+\(\d+\)\s+cooperative-sticky\s+Stable\s+2`, out)
	})
	t.Run("reset-offsets", func(t *testing.T) {
		out := run(group("classic", "--reset-offsets", "--to-earliest", "--all-topics", "--dry-run")...)
		require.Regexp(t, `classic\s+t\s+0\s+0`, out)
		require.Regexp(t, `classic\s+t\s+0\s+10\s`, run(group("classic", "--describe")...), "a dry run changes nothing")
		for _, name := range []string{"classic", "modern"} {
			run(group(name, "--reset-offsets", "--to-offset", "4", "--topic", "t:1", "--execute")...)
			run(group(name, "--reset-offsets", "--shift-by", "-3", "--topic", "t:0", "--execute")...)
			out = run(group(name, "--describe")...)
			require.Regexp(t, name+`\s+t\s+0\s+7\s+10\s+3\s`, out)
			require.Regexp(t, name+`\s+t\s+1\s+4\s+10\s+6\s`, out)
		}
		_, out = l.try(t, kafkaConsumerGroups, group("live", "--reset-offsets", "--to-earliest", "--topic", "t", "--execute")...)
		require.Contains(t, out, "Assignments can only be reset if the group 'live' is inactive")
	})
	t.Run("delete-offsets", func(t *testing.T) {
		require.Contains(t, run(group("classic", "--delete-offsets", "--topic", "t:0")...), "Successful")
		out := run(group("classic", "--describe")...)
		require.NotRegexp(t, `classic\s+t\s+0`, out)
		require.Regexp(t, `classic\s+t\s+1\s+4`, out)
		_, out = l.try(t, kafkaConsumerGroups, group("live", "--delete-offsets", "--topic", "t")...)
		require.Contains(t, out, "subscribed to")
	})
	t.Run("delete", func(t *testing.T) {
		_, out := l.try(t, kafkaConsumerGroups, group("live", "--delete")...)
		require.Contains(t, out, "not empty")
		require.Contains(t, run("--delete", "--group", "classic", "--group", "modern"), "successful")
		require.NotRegexp(t, "(?m)^(classic|modern)", run("--list"))
		for _, c := range live {
			c.Close()
		}
		require.Contains(t, run("--delete", "--group", "live"), "successful")
	})
}

// joinLive returns two members of the group "live". They have read and committed all of t, one partition each.
func joinLive(t *testing.T, b broker) []*kgo.Client {
	t.Helper()
	var live []*kgo.Client
	for range 2 {
		live = append(live, b.client(t, kgo.ClientID("tester"), kgo.ConsumerGroup("live"), kgo.ConsumeTopics("t"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit()))
	}
	for _, c := range live {
		go func() {
			for ctx := t.Context(); ctx.Err() == nil && !c.PollFetches(ctx).IsClientClosed(); {
				_ = c.CommitUncommittedOffsets(ctx) // the committed offsets are asserted
			}
		}()
	}
	admin := b.admin(t)
	harness.Await(t, "two members read a partition each and committed", func() bool {
		described, err := admin.DescribeGroups(within(t), "live")
		if err != nil || described["live"].State != "Stable" || len(described["live"].Members) != 2 {
			return false
		}
		for _, m := range described["live"].Members { // between its two steps, a cooperative rebalance is Stable as well
			assigned, ok := m.Assigned.AsConsumer()
			if !ok || len(assigned.Topics) != 1 || len(assigned.Topics[0].Partitions) != 1 {
				return false
			}
		}
		committed, err := admin.FetchOffsets(within(t), "live")
		p0, _ := committed.Lookup("t", 0)
		p1, _ := committed.Lookup("t", 1)
		return err == nil && p0.At == 10 && p1.At == 10
	})
	return live
}
