package attacks

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/test/harness"
)

var attacks = []attack{
	{name: "nothing", run: func(*testing.T, string) string { return "for comparison" }},
	{name: "OffsetFetch names a group 2,000 times", prepare: manyOffsets, run: offsetFetch},
	{name: "DescribeGroups names a group 1,000 times", each: true, prepare: largeMember, run: describeGroups},
	{name: "DescribeConfigs names a topic 100,000 times", each: true, run: describeConfigs},
	{name: "ListTransactions with large expressions", each: true, run: listTransactions},
	{name: "a subscription with a large expression", run: subscribe},
	{name: "IncrementalAlterConfigs appends to lists", each: true, run: alterLists},
	{name: "CreateTopics with 250,000 names", run: createTopics},
	{name: "JoinGroup of 30 members with 8 MB", run: joinLarge},
	{name: "JoinGroup with 80,000 protocols", each: true, run: joinMany},
	{name: "Produce claims 100 MiB and sends slowly", run: trickleProduce},
	{name: "CreateTopics claims 100 MiB and sends slowly", run: trickleCreateTopics},
	{name: "answers that are not read", each: true, prepare: largeMember, run: unread},
	{name: "Metadata that is not read", prepare: manyTopics, run: unreadMetadata},
	{name: "JoinGroup parked with 1 MB each", run: parkJoins},
	{name: "ListGroups with 200,000 filters", prepare: manyGroups, run: listGroups},
	{name: "silent connections", run: silent},
}

// manyOffsets commits 4 MB of offsets for a group.
func manyOffsets(t *testing.T, bootstrap string) {
	t.Helper()
	harness.CLI(t, bootstrap, nil, "topic", "create", "offsets", "--partitions", "1000")
	in := kmsg.NewPtrOffsetCommitRequest()
	in.Group = "offsets"
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "offsets"
	text := strings.Repeat("m", 4000)
	for p := range int32(1000) {
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Partition, partition.Metadata = p, &text
		topic.Partitions = append(topic.Partitions, partition)
	}
	in.Topics = append(in.Topics, topic)
	out := ask[*kmsg.OffsetCommitResponse](dial(t, bootstrap), in, 8)
	require.Zero(t, out.Topics[0].Partitions[999].ErrorCode)
}

func offsetFetch(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = "offsets"
	for range 2000 {
		in.Groups = append(in.Groups, g)
	}
	return flood(t, bootstrap, 20, in, 8)
}

// largeMember has a member with as much metadata as is taken, in a group that is stable.
func largeMember(t *testing.T, bootstrap string) {
	t.Helper()
	a := dial(t, bootstrap)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "large", "consumer", 300_000, 60_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", make([]byte, 1_000_000)
	join.Protocols = append(join.Protocols, p)
	joined := ask[*kmsg.JoinGroupResponse](a, join, 3)
	require.Zero(t, joined.ErrorCode)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = "large", joined.MemberID, joined.Generation
	require.Zero(t, ask[*kmsg.SyncGroupResponse](a, sync, 3).ErrorCode)
}

func describeGroups(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrDescribeGroupsRequest()
	for range 1000 {
		in.Groups = append(in.Groups, "large")
	}
	return flood(t, bootstrap, 20, in, 4)
}

func describeConfigs(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrDescribeConfigsRequest()
	r := kmsg.NewDescribeConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, bystanders
	for range 100_000 {
		in.Resources = append(in.Resources, r)
	}
	return flood(t, bootstrap, 4, in, 3)
}

func listTransactions(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrListTransactionsRequest()
	pattern := strings.Repeat("[a-z0-9]{0,900}", 1500)
	in.TransactionalIDPattern = &pattern
	first := flood(t, bootstrap, 4, in, 2)
	pattern = strings.Repeat("[a-z0-9]{0,90}", 70)
	return first + "; " + flood(t, bootstrap, 20, in, 2)
}

func subscribe(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	in.Group, in.MemberID, in.RebalanceTimeoutMillis = "expressions", "attacker", 60_000
	pattern := strings.Repeat("[a-z0-9]{0,900}", 1500)
	in.SubscribedTopicRegex, in.Topics = &pattern, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	first := flood(t, bootstrap, 1, in, 1)
	pattern = strings.Repeat("(?:a|b|a?){90}", 18) + "x"
	return first + "; " + flood(t, bootstrap, 20, in, 1)
}

func alterLists(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrIncrementalAlterConfigsRequest()
	var elements []string
	for i := range 10_172 {
		elements = append(elements, fmt.Sprint(i%10))
	}
	value := strings.Join(elements, ",")
	for i := range 120 {
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, fmt.Sprintf("%s-%d", bystanders, i)
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Op, c.Value = "follower.replication.throttled.replicas", kmsg.IncrementalAlterConfigOpAppend, &value
		r.Configs = append(r.Configs, c)
		in.Resources = append(in.Resources, r)
	}
	return flood(t, bootstrap, 1, in, 1)
}

func createTopics(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrCreateTopicsRequest()
	in.TimeoutMillis = 30_000
	for i := range 250_000 {
		c := kmsg.NewCreateTopicsRequestTopic()
		c.Topic, c.NumPartitions, c.ReplicationFactor = fmt.Sprintf("n%06d", i), 1, 1
		in.Topics = append(in.Topics, c)
	}
	return flood(t, bootstrap, 1, in, 7)
}

// joinLarge has members join, one after the other begins before it is answered.
func joinLarge(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrJoinGroupRequest()
	in.Group, in.ProtocolType, in.SessionTimeoutMillis, in.RebalanceTimeoutMillis = "joined", "consumer", 30_000, 5_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", make([]byte, 8<<20)
	in.Protocols = append(in.Protocols, p)
	return flood(t, bootstrap, 30, in, 3)
}

func joinMany(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrJoinGroupRequest()
	in.Group, in.ProtocolType, in.SessionTimeoutMillis, in.RebalanceTimeoutMillis = "protocols", "consumer", 30_000, 5_000
	for i := range 80_000 {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = fmt.Sprintf("%05d", i)
		in.Protocols = append(in.Protocols, p)
	}
	return flood(t, bootstrap, 4, in, 3)
}

func trickleProduce(t *testing.T, bootstrap string) string {
	t.Helper()
	return trickle(t, bootstrap, int16(kmsg.Produce))
}

func trickleCreateTopics(t *testing.T, bootstrap string) string {
	t.Helper()
	return trickle(t, bootstrap, int16(kmsg.CreateTopics))
}

// trickle has 50 connections claim frames of 100 MiB and send them at 600 KiB/s for 20 s.
func trickle(t *testing.T, bootstrap string, key int16) string {
	t.Helper()
	const connections = 50
	var all sync.WaitGroup
	over := time.Now().Add(20 * time.Second)
	var mu sync.Mutex
	reconnected := 0
	for range connections {
		all.Go(func() {
			for time.Now().Before(over) {
				conn, err := net.Dial("tcp", bootstrap)
				if err != nil {
					time.Sleep(100 * time.Millisecond) // sleeps: before the next attempt
					continue
				}
				head := make([]byte, 8)
				binary.BigEndian.PutUint32(head, 100<<20)
				binary.BigEndian.PutUint16(head[4:], uint16(key))
				binary.BigEndian.PutUint16(head[6:], 7)
				_, err = conn.Write(head)
				for err == nil && time.Now().Before(over) {
					_, err = conn.Write(make([]byte, 60<<10))
					time.Sleep(100 * time.Millisecond) // sleeps: the sender's pace
				}
				_ = conn.Close()
				mu.Lock()
				reconnected++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("%d connections, connected %d times", connections, reconnected)
}

// manyTopics creates 40 topics of 1,000 partitions. Metadata of all has about 2 MB.
func manyTopics(t *testing.T, bootstrap string) {
	t.Helper()
	a := dial(t, bootstrap)
	for i := range 40 { // one by one: a request creates at most 10,000 partitions
		in := kmsg.NewPtrCreateTopicsRequest()
		in.TimeoutMillis = 30_000
		c := kmsg.NewCreateTopicsRequestTopic()
		c.Topic, c.NumPartitions, c.ReplicationFactor = fmt.Sprintf("many-%d", i), 1000, 1
		in.Topics = append(in.Topics, c)
		require.Zero(t, ask[*kmsg.CreateTopicsResponse](a, in, 5).Topics[0].ErrorCode)
	}
}

// unreadMetadata asks for the same topics by many connections, each in another order, and reads no answer for 10 s.
func unreadMetadata(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrMetadataRequest()
	for i := range 40 {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(fmt.Sprintf("many-%d", i))
		in.Topics = append(in.Topics, topic)
	}
	return leave(t, bootstrap, 500, in, 8)
}

// leave sends a request by so many connections, and closes them after 10 s without reading the answers.
func leave(t *testing.T, bootstrap string, connections int, in kmsg.Request, version int16) string {
	t.Helper()
	var all []*attacker
	for range connections {
		a := dial(t, bootstrap)
		a.send(in, version)
		all = append(all, a)
	}
	time.Sleep(10 * time.Second) // sleeps: the attack
	for _, a := range all {
		_ = a.conn.Close()
	}
	return fmt.Sprintf("%d connections", len(all))
}

// parkJoins has members with 1 MB of metadata wait in groups of their own.
func parkJoins(t *testing.T, bootstrap string) string {
	t.Helper()
	for i := range 200 {
		in := kmsg.NewPtrJoinGroupRequest()
		in.Group, in.ProtocolType, in.SessionTimeoutMillis, in.RebalanceTimeoutMillis = fmt.Sprintf("parked-%d", i/2), "consumer", 30_000, 30_000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = "range", make([]byte, 1_000_000)
		in.Protocols = append(in.Protocols, p)
		dial(t, bootstrap).send(in, 3)
	}
	time.Sleep(10 * time.Second) // sleeps: the attack
	return "200 members of 100 groups"
}

// manyGroups commits an offset of each of 2,000 groups.
func manyGroups(t *testing.T, bootstrap string) {
	t.Helper()
	a := dial(t, bootstrap)
	for i := range 2000 {
		in := kmsg.NewPtrOffsetCommitRequest()
		in.Group = fmt.Sprintf("group-%d", i)
		topic := kmsg.NewOffsetCommitRequestTopic()
		topic.Topic, topic.Partitions = bystanders, append(topic.Partitions, kmsg.NewOffsetCommitRequestTopicPartition())
		in.Topics = append(in.Topics, topic)
		require.Zero(t, ask[*kmsg.OffsetCommitResponse](a, in, 7).Topics[0].Partitions[0].ErrorCode)
	}
}

func listGroups(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrListGroupsRequest()
	for i := range 200_000 {
		in.StatesFilter = append(in.StatesFilter, fmt.Sprint(i))
	}
	return flood(t, bootstrap, 4, in, 4)
}

// silent opens connections and sends nothing.
func silent(t *testing.T, bootstrap string) string {
	t.Helper()
	opened := 0
	for range 15_000 {
		conn, err := net.Dial("tcp", bootstrap)
		if err != nil {
			break
		}
		defer conn.Close()
		opened++
	}
	time.Sleep(10 * time.Second) // sleeps: the attack
	return fmt.Sprintf("%d connections", opened)
}

// unread asks for the largest answers by many connections, and reads none of them.
func unread(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrDescribeGroupsRequest()
	for range 30 {
		in.Groups = append(in.Groups, "large")
	}
	return leave(t, bootstrap, 100, in, 4)
}
