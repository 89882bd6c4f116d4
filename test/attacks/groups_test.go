package attacks

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/test/harness"
)

func thousandPartitions(t *testing.T, bootstrap string) {
	t.Helper()
	harness.CLI(t, bootstrap, nil, "topic", "create", "thousand", "--partitions", "1000")
}

// codesOf calls run on many connections, a number of times on each, until the attack's time is over. It returns the number of each result.
func codesOf(t *testing.T, bootstrap string, connections, times int, run func(a *attacker, c, i int) string) string {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	counts := map[string]int{}
	over := time.Now().Add(attackTime)
	for c := range connections {
		a := dial(t, bootstrap)
		all.Go(func() {
			for i := 0; i < times && time.Now().Before(over); i++ {
				result := run(a, c, i)
				mu.Lock()
				counts[result]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return fmt.Sprint(counts)
}

// fetchSessions has 50 connections open 10,000 fetch sessions of 1,000 partitions each.
func fetchSessions(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrFetchRequest()
	in.MinBytes, in.MaxBytes = 1, 1<<20
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = "thousand"
	for p := range int32(1000) {
		partition := kmsg.NewFetchRequestTopicPartition()
		partition.Partition, partition.PartitionMaxBytes, partition.CurrentLeaderEpoch = p, 1, -1
		topic.Partitions = append(topic.Partitions, partition)
	}
	in.Topics = append(in.Topics, topic)
	return codesOf(t, bootstrap, 50, 200, func(a *attacker, _, _ int) string {
		if ask[*kmsg.FetchResponse](a, copyOf(in), 11).SessionID == 0 {
			return "without session"
		}
		return "session"
	})
}

// commitMetadata has 50 connections commit offsets of 1,000 partitions in 1,000 groups, with 4 KiB of metadata each.
func commitMetadata(t *testing.T, bootstrap string) string {
	t.Helper()
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "thousand"
	text := strings.Repeat("m", 4096)
	for p := range int32(1000) {
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Partition, partition.Metadata = p, &text
		topic.Partitions = append(topic.Partitions, partition)
	}
	return codesOf(t, bootstrap, 50, 20, func(a *attacker, c, i int) string {
		in := kmsg.NewPtrOffsetCommitRequest()
		in.Group, in.Topics = fmt.Sprintf("commits-%d-%d", c, i), []kmsg.OffsetCommitRequestTopic{topic}
		return fmt.Sprint("code ", ask[*kmsg.OffsetCommitResponse](a, in, 8).Topics[0].Partitions[999].ErrorCode)
	})
}

// mixedGroups has classic members with 900 KB of metadata join 50 groups that use the consumer protocol (KIP-848).
func mixedGroups(t *testing.T, bootstrap string) string {
	t.Helper()
	subscription := kmsg.NewConsumerMemberMetadata()
	subscription.Version, subscription.Topics = 1, []string{"thousand"}
	for i := range 3000 {
		subscription.Topics = append(subscription.Topics, fmt.Sprintf("%06d", i)+strings.Repeat("n", 194))
	}
	subscription.UserData = make([]byte, 300_000)
	metadata := subscription.AppendTo(nil)
	return codesOf(t, bootstrap, 50, 20, func(a *attacker, c, i int) string {
		group := fmt.Sprintf("mixed-%d", c)
		if i == 0 {
			in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			in.Group, in.MemberID, in.RebalanceTimeoutMillis = group, "consumer", 60_000
			in.SubscribedTopicNames, in.Topics = []string{"thousand"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			return fmt.Sprint("heartbeat code ", ask[*kmsg.ConsumerGroupHeartbeatResponse](a, in, 0).ErrorCode)
		}
		in := kmsg.NewPtrJoinGroupRequest()
		in.Group, in.ProtocolType, in.SessionTimeoutMillis, in.RebalanceTimeoutMillis = group, "consumer", 30_000, 60_000
		in.Protocols = append(in.Protocols, kmsg.JoinGroupRequestProtocol{Name: "range", Metadata: metadata})
		return fmt.Sprint("join code ", ask[*kmsg.JoinGroupResponse](a, in, 3).ErrorCode)
	})
}
