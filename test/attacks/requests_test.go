package attacks

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
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
	{name: "ListOffsets of 250,000 partitions", run: listOffsets},
	{name: "OffsetForLeaderEpoch of 250,000 partitions", run: leaderEpochs},
	{name: "FindCoordinator of 250,000 keys that is not read", run: unreadCoordinators},
	{name: "Metadata of long names that is not read", run: unreadNames},
	{name: "Metadata creates 200,000 names", run: autoCreate},
	{name: "AlterClientQuotas of 90 MB", run: alterQuotas},
	{name: "DeleteGroups of 200,000 names that is not read", run: unreadDeleteGroups},
	{name: "a large answer read slowly", prepare: largeMembers, run: slowReader},
	{name: "connections with a request each", run: busyConnections},
	{name: "Fetch of 250,000 partitions parks", run: parkFetches},
	{name: "ConsumerGroupHeartbeat with 8 MB of topic names", run: heartbeatNames},
	{name: "SyncGroup assigns 1 MB in each of 400 groups", run: assignLarge},
	{name: "JoinGroup with client ids of 30 kB", run: joinClientIDs},
	{name: "members take the memory of all groups", run: takeMembers},
	{name: "1,000 groups with slow expressions", prepare: longNames, run: slowExpressions},
	{name: "PushTelemetry with a compressed bomb", prepare: subscribeTelemetry, run: pushBombs},
	{name: "Produce of 200,000 partitions", run: producePartitions},
	{name: "InitProducerId of 100,000 transactional IDs", run: initProducers},
	{name: "a group of 3,000 members and 10,000 partitions", prepare: tenThousandPartitions, run: largeGroup},
	{name: "500 groups with expressions while topics are created", run: expressionsMeetTopics},
	{name: "LeaveGroup with 200,000 members", run: leaveGroup},
	{name: "OffsetCommit of 200,000 partitions", run: offsetCommit},
	{name: "DeleteRecords of 200,000 partitions", run: deleteRecords},
	{name: "AddPartitionsToTxn of 200,000 partitions", run: addPartitions},
	{name: "WriteTxnMarkers of 200,000 partitions", run: writeMarkers},
	{name: "TLS handshakes that stall", secure: true, run: stallHandshakes},
	{name: "TLS handshakes over and over", secure: true, run: handshakes},
	{name: "half-closed TLS connections", secure: true, run: halfClose},
	{name: "silent TLS connections", secure: true, run: secureSilence},
	{name: "Produce of gzip bombs that are compressed anew", prepare: recodedTopic, run: produceGzipBombs},
	{name: "Produce of zstd bombs that are compressed anew", prepare: recodedTopic, run: produceZstdBombs},
	{name: "Produce of 2,000 producers ahead of their sequences", prepare: aheadTopic, run: produceAhead},
	{name: "EndTxn of 20,000 partitions", run: endLarge},
	{name: "10,000 fetch sessions of 1,000 partitions", prepare: thousandPartitions, run: fetchSessions},
	{name: "OffsetCommit with 4 KiB of metadata in 1,000 groups", prepare: thousandPartitions, run: commitMetadata},
	{name: "classic members of 900 KB in consumer groups", prepare: thousandPartitions, run: mixedGroups},
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
	joinStable(dial(t, bootstrap), "large")
}

// joinStable has a member with 1 MB of metadata join a group, which is stable then.
func joinStable(a *attacker, group string) {
	a.t.Helper()
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = group, "consumer", 300_000, 60_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", make([]byte, 1_000_000)
	join.Protocols = append(join.Protocols, p)
	joined := ask[*kmsg.JoinGroupResponse](a, join, 3)
	assert.Zero(a.t, joined.ErrorCode)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, joined.MemberID, joined.Generation
	assert.Zero(a.t, ask[*kmsg.SyncGroupResponse](a, sync, 3).ErrorCode)
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

// trickle has 50 connections claim frames of 100 MiB and send them at 600 KiB/s for 12 s.
func trickle(t *testing.T, bootstrap string, key int16) string {
	t.Helper()
	const connections = 50
	var all sync.WaitGroup
	over := time.Now().Add(12 * time.Second)
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
				_ = conn.SetDeadline(over)
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

// unreadMetadata asks for the same topics by many connections, each in another order, and reads no answer.
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

// leave sends a request by so many connections, and closes them after attackTime without reading the answers.
func leave(t *testing.T, bootstrap string, connections int, in kmsg.Request, version int16) string {
	t.Helper()
	var all []*attacker
	for range connections {
		a := dial(t, bootstrap)
		a.send(in, version)
		all = append(all, a)
	}
	time.Sleep(attackTime) // sleeps: the attack
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
	time.Sleep(attackTime) // sleeps: the attack
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
	time.Sleep(attackTime) // sleeps: the attack
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

// each sends a request made for each of so many connections, at the same time. With patient they read their answers; without, they read
// nothing for attackTime and close.
func each(t *testing.T, bootstrap string, connections int, version int16, patient bool, in func(i int) kmsg.Request) string {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	bytes, answered := 0, 0
	over := time.Now().Add(attackTime)
	var encoding sync.Mutex // one frame at a time, so that the first ones are sent early
	for i := range connections {
		a := dial(t, bootstrap)
		if !patient {
			defer time.AfterFunc(time.Until(over), func() { _ = a.conn.Close() }).Stop()
		}
		all.Go(func() {
			encoding.Lock()
			if !patient && time.Now().After(over) {
				encoding.Unlock()
				return
			}
			frame := a.frame(in(i), version)
			encoding.Unlock()
			_, _ = a.conn.Write(frame)
			if patient {
				size, ok := a.receive()
				mu.Lock()
				defer mu.Unlock()
				if bytes += size; ok {
					answered++
				}
			}
		})
	}
	if !patient {
		time.Sleep(time.Until(over)) // sleeps: the attack
	}
	all.Wait()
	return fmt.Sprintf("%d connections, %d answered with %d bytes", connections, answered, bytes)
}

const manyPartitions = 250_000

func listOffsets(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrListOffsetsRequest()
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = "unknown"
	for p := range int32(manyPartitions) {
		partition := kmsg.NewListOffsetsRequestTopicPartition()
		partition.Partition, partition.Timestamp = p, -1
		topic.Partitions = append(topic.Partitions, partition)
	}
	in.Topics = append(in.Topics, topic)
	return each(t, bootstrap, 100, 3, false, func(int) kmsg.Request { return copyOf(in) })
}

func leaderEpochs(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrOffsetForLeaderEpochRequest()
	topic := kmsg.NewOffsetForLeaderEpochRequestTopic()
	topic.Topic = "unknown"
	for p := range int32(manyPartitions) {
		partition := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
		partition.Partition = p
		topic.Partitions = append(topic.Partitions, partition)
	}
	in.Topics = append(in.Topics, topic)
	return each(t, bootstrap, 100, 3, false, func(int) kmsg.Request { return copyOf(in) })
}

// copyOf returns a request that shares its lists: connections set its version at the same time.
func copyOf[T any](in *T) *T { out := *in; return &out }

func unreadCoordinators(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrFindCoordinatorRequest()
	for range manyPartitions {
		in.CoordinatorKeys = append(in.CoordinatorKeys, "g")
	}
	return each(t, bootstrap, 200, 4, false, func(int) kmsg.Request { return copyOf(in) })
}

// unreadNames asks for topics whose names are no names. The answer has each of them.
func unreadNames(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrMetadataRequest()
	for i := range 300 {
		topic := kmsg.NewMetadataRequestTopic()
		topic.Topic = kmsg.StringPtr(fmt.Sprintf("%06d", i) + strings.Repeat("n", 32_000))
		in.Topics = append(in.Topics, topic)
	}
	return each(t, bootstrap, 200, 8, false, func(int) kmsg.Request { return copyOf(in) })
}

func autoCreate(t *testing.T, bootstrap string) string {
	t.Helper()
	return each(t, bootstrap, 10, 8, true, func(c int) kmsg.Request {
		in := kmsg.NewPtrMetadataRequest()
		in.AllowAutoTopicCreation = true
		for i := range 200_000 {
			topic := kmsg.NewMetadataRequestTopic()
			topic.Topic = kmsg.StringPtr(fmt.Sprintf("%x-%x", c, i))
			in.Topics = append(in.Topics, topic)
		}
		return in
	})
}

func alterQuotas(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrAlterClientQuotasRequest()
	for i := range 2800 {
		e := kmsg.NewAlterClientQuotasRequestEntry()
		part := kmsg.NewAlterClientQuotasRequestEntryEntity()
		part.Type, part.Name = "user", kmsg.StringPtr(fmt.Sprintf("%06d", i)+strings.Repeat("\x00", 32_000))
		e.Entity = append(e.Entity, part)
		in.Entries = append(in.Entries, e)
	}
	return each(t, bootstrap, 2, 1, true, func(int) kmsg.Request { return copyOf(in) })
}

func unreadDeleteGroups(t *testing.T, bootstrap string) string {
	t.Helper()
	return each(t, bootstrap, 200, 2, false, func(c int) kmsg.Request {
		in := kmsg.NewPtrDeleteGroupsRequest()
		for i := range 200_000 {
			in.Groups = append(in.Groups, fmt.Sprintf("%x-%x", c, i))
		}
		return in
	})
}

// largeMembers has 12 groups with 1 MB each. They join at the same time, because each waits for further members.
func largeMembers(t *testing.T, bootstrap string) {
	t.Helper()
	var all sync.WaitGroup
	for i := range 12 {
		a := dial(t, bootstrap)
		all.Go(func() { joinStable(a, fmt.Sprintf("large-%d", i)) })
	}
	all.Wait()
}

// slowReader has three connections read large answers at 700 KB/s, while another client asks for a large answer.
func slowReader(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrDescribeGroupsRequest()
	for i := range 12 {
		in.Groups = append(in.Groups, fmt.Sprintf("large-%d", i))
	}
	for range 3 {
		a := dial(t, bootstrap)
		require.NoError(t, a.conn.(*net.TCPConn).SetReadBuffer(64<<10))
		in := copyOf(in)
		go func() {
			for range 20 {
				a.send(in, 4)
			}
		}()
		go func() {
			piece := make([]byte, 70<<10)
			for {
				if _, err := io.ReadFull(a.conn, piece); err != nil {
					return
				}
				time.Sleep(100 * time.Millisecond) // sleeps: the reader's pace
			}
		}()
	}
	time.Sleep(time.Second) // sleeps: until the attack is under way
	began := time.Now()
	other := dial(t, bootstrap)
	one := kmsg.NewPtrDescribeGroupsRequest()
	one.Groups = []string{"large-1"}
	other.send(one, 4)
	size, ok := other.receive()
	took := time.Since(began)
	assert.Less(t, took, answerBound, "another client's large answer")
	assert.True(t, ok, "another client's large answer")
	return fmt.Sprintf("another client's answer: %d bytes, %v, %.1f s", size, ok, took.Seconds())
}

// busyConnections has as many connections as are taken wait for records, from one address.
func busyConnections(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrFetchRequest()
	in.MaxWaitMillis, in.MinBytes, in.MaxBytes, in.SessionEpoch = 300_000, 1<<30, 1<<20, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = bystanders
	partition := kmsg.NewFetchRequestTopicPartition()
	partition.FetchOffset, partition.PartitionMaxBytes, partition.CurrentLeaderEpoch = 0, 1, -1
	topic.Partitions = append(topic.Partitions, partition)
	in.Topics = append(in.Topics, topic)
	in.SetVersion(11)
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID("attacker")).AppendRequest(nil, in, 1)
	from := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}, Timeout: time.Second}
	opened := 0
	for range 15_000 {
		conn, err := from.Dial("tcp", bootstrap)
		if err != nil {
			break
		}
		defer conn.Close()
		_, _ = conn.Write(frame)
		opened++
	}
	time.Sleep(15 * time.Second) // sleeps: the attack
	return fmt.Sprintf("%d connections", opened)
}

func parkFetches(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrFetchRequest()
	in.MaxWaitMillis, in.MinBytes, in.MaxBytes, in.SessionEpoch = 300_000, 1<<30, 1<<20, -1
	topic := kmsg.NewFetchRequestTopic()
	topic.Topic = bystanders
	for p := range int32(manyPartitions) {
		partition := kmsg.NewFetchRequestTopicPartition()
		partition.Partition, partition.PartitionMaxBytes, partition.CurrentLeaderEpoch = p, 1, -1
		topic.Partitions = append(topic.Partitions, partition)
	}
	in.Topics = append(in.Topics, topic)
	return each(t, bootstrap, 50, 11, false, func(int) kmsg.Request { return copyOf(in) })
}

func subscribeTelemetry(t *testing.T, bootstrap string) {
	t.Helper()
	in := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = 16, "all"
	for name, value := range map[string]string{"metrics": "*", "interval.ms": "100"} {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = name, &value
		r.Configs = append(r.Configs, c)
	}
	in.Resources = append(in.Resources, r)
	require.Zero(t, ask[*kmsg.IncrementalAlterConfigsResponse](dial(t, bootstrap), in, 1).Resources[0].ErrorCode)
}

// pushBombs pushes 1 GB of zeros, compressed, by 100 clients.
func pushBombs(t *testing.T, bootstrap string) string {
	t.Helper()
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	bomb := encoder.EncodeAll(make([]byte, 1<<30), nil)
	var all sync.WaitGroup
	for range 100 {
		a := dial(t, bootstrap)
		got := ask[*kmsg.GetTelemetrySubscriptionsResponse](a, kmsg.NewPtrGetTelemetrySubscriptionsRequest(), 0)
		all.Go(func() {
			for range 20 {
				in := kmsg.NewPtrPushTelemetryRequest()
				in.ClientInstanceID, in.SubscriptionID, in.CompressionType, in.Metrics = got.ClientInstanceID, got.SubscriptionID, 4, bomb
				a.send(in, 0)
				a.receive()
				time.Sleep(100 * time.Millisecond) // sleeps: the interval
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("100 clients, 20 pushes of %d bytes", len(bomb))
}

func producePartitions(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrProduceRequest()
	in.Acks, in.TimeoutMillis = -1, 30_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = bystanders
	for p := range int32(200_000) {
		partition := kmsg.NewProduceRequestTopicPartition()
		partition.Partition, partition.Records = p, make([]byte, 61)
		topic.Partitions = append(topic.Partitions, partition)
	}
	in.Topics = append(in.Topics, topic)
	return each(t, bootstrap, 50, 8, false, func(int) kmsg.Request { return copyOf(in) })
}

func initProducers(t *testing.T, bootstrap string) string {
	t.Helper()
	var all sync.WaitGroup
	over := time.Now().Add(15 * time.Second)
	var mu sync.Mutex
	n := 0
	for c := range 100 {
		a := dial(t, bootstrap)
		all.Go(func() {
			for i := 0; i < 1000 && time.Now().Before(over); i++ {
				in := kmsg.NewPtrInitProducerIDRequest()
				in.TransactionalID, in.TransactionTimeoutMillis = kmsg.StringPtr(fmt.Sprintf("%x-%x", c, i)+strings.Repeat("t", 30_000)), 60_000
				a.send(in, 3)
				if _, ok := a.receive(); !ok {
					return
				}
				mu.Lock()
				n++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("%d transactional IDs of 30 kB", n)
}

func tenThousandPartitions(t *testing.T, bootstrap string) {
	t.Helper()
	harness.CLI(t, bootstrap, nil, "topic", "create", "wide", "--partitions", "10000")
}

func largeGroup(t *testing.T, bootstrap string) string {
	t.Helper()
	var all sync.WaitGroup
	over := time.Now().Add(20 * time.Second)
	var mu sync.Mutex
	joined, codes := 0, map[int16]int{}
	for c := range 50 {
		a := dial(t, bootstrap)
		all.Go(func() {
			for i := 0; i < 60 && time.Now().Before(over); i++ {
				in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
				in.Group, in.MemberID, in.RebalanceTimeoutMillis = "large", fmt.Sprintf("member-%d-%d", c, i), 60_000
				in.SubscribedTopicNames, in.Topics = []string{"wide"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
				code := ask[*kmsg.ConsumerGroupHeartbeatResponse](a, in, 0).ErrorCode
				mu.Lock()
				codes[code]++
				joined++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("%d members, codes %v", joined, codes)
}

func expressionsMeetTopics(t *testing.T, bootstrap string) string {
	t.Helper()
	var all sync.WaitGroup
	for c := range 50 {
		a := dial(t, bootstrap)
		all.Go(func() {
			for i := range 10 {
				in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
				in.Group, in.MemberID, in.RebalanceTimeoutMillis = fmt.Sprintf("e-%d-%d", c, i), "m", 60_000
				pattern := strings.Repeat("(?:a|b|a?){30}", 5) + ".*" + fmt.Sprint(i)
				in.SubscribedTopicRegex, in.Topics = &pattern, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
				a.send(in, 1)
				a.receive()
			}
		})
	}
	all.Wait()
	creator := dial(t, bootstrap)
	over := time.Now().Add(20 * time.Second)
	created := 0
	for ; created < 1000 && time.Now().Before(over); created++ {
		in := kmsg.NewPtrCreateTopicsRequest()
		in.TimeoutMillis = 30_000
		c := kmsg.NewCreateTopicsRequestTopic()
		c.Topic, c.NumPartitions, c.ReplicationFactor = strings.Repeat("ab", 100)+fmt.Sprint(created), 1, 1
		in.Topics = append(in.Topics, c)
		creator.send(in, 5)
		if _, ok := creator.receive(); !ok {
			break
		}
	}
	return fmt.Sprintf("%d topics", created)
}

func leaveGroup(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrLeaveGroupRequest()
	in.Group = "left"
	for i := range 200_000 {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID = fmt.Sprintf("%x", i)
		in.Members = append(in.Members, m)
	}
	return each(t, bootstrap, 100, 3, false, func(int) kmsg.Request { return copyOf(in) })
}

func offsetCommit(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrOffsetCommitRequest()
	in.Group = "committed"
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = "unknown"
	for p := range int32(200_000) {
		partition := kmsg.NewOffsetCommitRequestTopicPartition()
		partition.Partition = p
		topic.Partitions = append(topic.Partitions, partition)
	}
	in.Topics = append(in.Topics, topic)
	return each(t, bootstrap, 100, 8, false, func(int) kmsg.Request { return copyOf(in) })
}

func deleteRecords(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrDeleteRecordsRequest()
	in.TimeoutMillis = 30_000
	topic := kmsg.NewDeleteRecordsRequestTopic()
	topic.Topic = "unknown"
	for p := range int32(200_000) {
		partition := kmsg.NewDeleteRecordsRequestTopicPartition()
		partition.Partition = p
		topic.Partitions = append(topic.Partitions, partition)
	}
	in.Topics = append(in.Topics, topic)
	return each(t, bootstrap, 100, 1, false, func(int) kmsg.Request { return copyOf(in) })
}

func addPartitions(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrAddPartitionsToTxnRequest()
	in.TransactionalID = "t"
	topic := kmsg.NewAddPartitionsToTxnRequestTopic()
	topic.Topic = "unknown"
	for p := range int32(200_000) {
		topic.Partitions = append(topic.Partitions, p)
	}
	in.Topics = append(in.Topics, topic)
	return each(t, bootstrap, 100, 3, false, func(int) kmsg.Request { return copyOf(in) })
}

func writeMarkers(t *testing.T, bootstrap string) string {
	t.Helper()
	in := kmsg.NewPtrWriteTxnMarkersRequest()
	marker := kmsg.NewWriteTxnMarkersRequestMarker()
	topic := kmsg.NewWriteTxnMarkersRequestMarkerTopic()
	topic.Topic = "unknown"
	for p := range int32(200_000) {
		topic.Partitions = append(topic.Partitions, p)
	}
	marker.Topics = append(marker.Topics, topic)
	in.Markers = append(in.Markers, marker)
	return each(t, bootstrap, 100, 1, false, func(int) kmsg.Request { return copyOf(in) })
}

// heartbeatNames has 100 members of a consumer group subscribe to 8 MB of names each.
func heartbeatNames(t *testing.T, bootstrap string) string {
	t.Helper()
	return each(t, bootstrap, 100, 0, true, func(c int) kmsg.Request {
		in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		in.Group, in.MemberID, in.RebalanceTimeoutMillis = fmt.Sprintf("names-%d", c), "m", 60_000
		in.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for i := range 32_000 {
			in.SubscribedTopicNames = append(in.SubscribedTopicNames, fmt.Sprintf("%06x", i)+strings.Repeat("n", 240))
		}
		return in
	})
}

// assignLarge has the one member of each group assign 1 MB to itself.
func assignLarge(t *testing.T, bootstrap string) string {
	t.Helper()
	assigned, refused := 0, map[int16]int{}
	var all sync.WaitGroup
	var mu sync.Mutex
	for i := range 400 {
		all.Go(func() {
			a := dial(t, bootstrap)
			join := kmsg.NewPtrJoinGroupRequest()
			join.Group, join.ProtocolType = fmt.Sprintf("assigned-%d", i), "consumer"
			join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = 300_000, 60_000
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = "range", make([]byte, 10)
			join.Protocols = append(join.Protocols, p)
			joined := ask[*kmsg.JoinGroupResponse](a, join, 3)
			in := kmsg.NewPtrSyncGroupRequest()
			in.Group, in.MemberID, in.Generation = join.Group, joined.MemberID, joined.Generation
			assignment := kmsg.NewSyncGroupRequestGroupAssignment()
			assignment.MemberID, assignment.MemberAssignment = joined.MemberID, make([]byte, 1_000_000)
			in.GroupAssignment = append(in.GroupAssignment, assignment)
			code := ask[*kmsg.SyncGroupResponse](a, in, 3).ErrorCode
			mu.Lock()
			defer mu.Unlock()
			if refused[code]++; code == 0 {
				assigned++
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("%d assigned, codes %v", assigned, refused)
}

// joinClientIDs has members whose client ids are long join groups of their own. A member's id has its client id.
func joinClientIDs(t *testing.T, bootstrap string) string {
	t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	joined := 0
	over := time.Now().Add(15 * time.Second)
	for c := range 50 {
		a := dial(t, bootstrap)
		all.Go(func() {
			for i := 0; time.Now().Before(over); i++ {
				in := kmsg.NewPtrJoinGroupRequest()
				in.Group, in.ProtocolType, in.SessionTimeoutMillis, in.RebalanceTimeoutMillis = fmt.Sprintf("ids-%d", c), "consumer", 300_000, 60_000
				in.Protocols = append(in.Protocols, kmsg.JoinGroupRequestProtocol{Name: "range"})
				in.SetVersion(4) // answered MEMBER_ID_REQUIRED
				a.next++
				_, _ = a.conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(strings.Repeat("c", 30_000))).AppendRequest(nil, in, a.next))
				if _, ok := a.receive(); !ok {
					return
				}
				mu.Lock()
				joined++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("%d joins", joined)
}

// takeMembers has members of 100 groups take the memory that members may have. Then another client joins a group of its own.
func takeMembers(t *testing.T, bootstrap string) string {
	t.Helper()
	joinAs := func(group string, metadata int) int16 {
		in := kmsg.NewPtrJoinGroupRequest()
		in.Group, in.ProtocolType, in.SessionTimeoutMillis, in.RebalanceTimeoutMillis = group, "consumer", 1_800_000, 60_000
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = "range", make([]byte, metadata)
		in.Protocols = append(in.Protocols, p)
		return ask[*kmsg.JoinGroupResponse](dial(t, bootstrap), in, 3).ErrorCode
	}
	var all sync.WaitGroup
	for i := range 1000 {
		size := 1_000_000
		if i >= 50 { // the rest
			size = 20_000
		}
		if i >= 500 { // the rest
			size = 10
		}
		all.Go(func() { joinAs(fmt.Sprintf("taken-%d", i), size) })
		if i == 50 || i == 500 {
			time.Sleep(time.Second) // sleeps: until the larger ones have joined
		}
	}
	all.Wait()
	began, tries := time.Now(), 0
	for ; joinAs("innocent", 100) != 0; tries++ {
		if time.Since(began) > answerBound {
			break
		}
		time.Sleep(100 * time.Millisecond) // sleeps: a client's retry.backoff.ms
	}
	assert.Less(t, time.Since(began), answerBound, "another client joins a group")
	return fmt.Sprintf("another client's join was refused %d times", tries)
}

// longNames creates 5,000 topics with long names.
func longNames(t *testing.T, bootstrap string) {
	t.Helper()
	a := dial(t, bootstrap)
	for i := range 10 {
		in := kmsg.NewPtrCreateTopicsRequest()
		in.TimeoutMillis = 30_000
		for k := range 500 {
			c := kmsg.NewCreateTopicsRequestTopic()
			c.Topic, c.NumPartitions, c.ReplicationFactor = strings.Repeat("ab", 120)+fmt.Sprint(i*500+k), 1, 1
			in.Topics = append(in.Topics, c)
		}
		require.Zero(t, ask[*kmsg.CreateTopicsResponse](a, in, 5).Topics[0].ErrorCode)
	}
}

// slowExpressions has members of 1,000 groups subscribe by expressions of the maximum size. Then another client subscribes by a small one.
func slowExpressions(t *testing.T, bootstrap string) string {
	t.Helper()
	beat := func(a *attacker, group, pattern string) (*kmsg.ConsumerGroupHeartbeatResponse, bool) {
		in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		in.Group, in.MemberID, in.RebalanceTimeoutMillis = group, "m", 60_000
		in.SubscribedTopicRegex, in.Topics = &pattern, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		out := ask[*kmsg.ConsumerGroupHeartbeatResponse](a, in, 1)
		return out, out.ErrorCode == 0 && out.Assignment != nil && len(out.Assignment.Topics) > 0
	}
	for i := range 1200 {
		a := dialFrom(t, bootstrap, "127.0.0.2")
		in := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		pattern := fmt.Sprintf("(?:%d|%s)x", i, strings.Repeat("(?:a|b|a?){90}", 18))
		in.Group, in.MemberID, in.RebalanceTimeoutMillis = fmt.Sprintf("slow-%d", i), "m", 60_000
		in.SubscribedTopicRegex, in.Topics = &pattern, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		a.send(in, 1)
	}
	time.Sleep(2 * time.Second) // sleeps: until the attack is under way
	began, codes := time.Now(), map[int16]int{}
	other := dial(t, bootstrap)
	for time.Since(began) < 2*answerBound {
		out, assigned := beat(other, "innocent", bystanders)
		if codes[out.ErrorCode]++; assigned {
			break
		}
		time.Sleep(500 * time.Millisecond) // sleeps: until the next heartbeat
	}
	assert.Less(t, time.Since(began), answerBound, "another client's small expression")
	return fmt.Sprintf("another client's expression took %.1f s, codes %v", time.Since(began).Seconds(), codes)
}
