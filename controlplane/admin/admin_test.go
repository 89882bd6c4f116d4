package admin_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/controlplane/admin"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// cluster is a virtual cluster with two agents: session 1 in zone a with nodes 1 and 2, session 2 in zone b with 3.
type cluster struct {
	t     *testing.T
	apis  *admin.APIs
	owner *owner.Owner
	node  int32        // that requests come through
	from  *api.Forward // the client of requests; nil: one of zone a
}

// test runs fn on a fresh cluster in a bubble, once per version from the lowest to the highest served.
func test(t *testing.T, key kmsg.Key, fn func(c *cluster, version int16)) {
	t.Helper()
	entry, ok := kafkaproto.Lookup(int16(key))
	require.True(t, ok)
	for version := entry.Served.Min; version <= entry.Served.Max; version++ {
		t.Run(fmt.Sprintf("version %d", version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { run(t, func(c *cluster) { fn(c, version) }) })
		})
	}
}

func run(t *testing.T, fn func(c *cluster)) {
	t.Helper()
	runBounded(t, owner.Config{}, fn)
}

// runBounded is run with the bounds of the owner's configuration.
func runBounded(t *testing.T, bounds owner.Config, fn func(c *cluster)) {
	t.Helper()
	log, _, err := memlog.New().Open("r1", metalog.Config{})
	require.NoError(t, err)
	owned := make(chan *owner.Owner, 1)
	r, err := replica.New(replica.Config{
		Replica: "r1", Address: "r1:1", Log: log, Bucket: mem.New(), SnapshotPrefix: "s/", ClusterID: "the-cluster", Owner: bounds,
		OnOwner: func(o *owner.Owner) func() {
			owned <- o
			return func() {}
		},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	c := &cluster{t: t, owner: <-owned, node: 1}
	c.apis = admin.New(admin.Config{DefaultPartitions: 3}, c.owner)
	c.propose(&metadata.OpenSession{Instance: "a", Zone: "a", Endpoints: []metadata.Endpoint{{Host: "a", Port: 1}, {Host: "a", Port: 2}}})
	c.propose(&metadata.OpenSession{Instance: "b", Zone: "b", Endpoints: []metadata.Endpoint{{Host: "b", Port: 3}}})
	fn(c)
	cancel()
	require.NoError(t, <-ended)
}

func (c *cluster) propose(command metadata.Command) metadata.Result {
	c.t.Helper()
	result, _, err := c.owner.Propose(c.t.Context(), command)
	require.NoError(c.t, err)
	require.NoError(c.t, result.Err)
	return result
}

// ask forwards a request in a version, through its encoding and back.
func ask[Out kmsg.Response](c *cluster, in kmsg.Request, version int16) Out {
	c.t.Helper()
	in.SetVersion(version)
	f := c.from
	if f == nil {
		f = &api.Forward{Zone: "a", Node: c.node}
	}
	f.ApiKey, f.ApiVersion, f.Body = int32(in.Key()), int32(version), in.AppendTo(nil)
	body, err := c.apis.Handle(c.t.Context(), f)
	require.NoError(c.t, err)
	out := in.ResponseKind()
	out.SetVersion(version)
	require.NoError(c.t, out.ReadFrom(body))
	return out.(Out)
}

func (c *cluster) create(name string, partitions int32, configs ...string) {
	c.t.Helper()
	command := &metadata.CreateTopic{Name: name, Partitions: partitions, Configs: map[string]string{}}
	copy(command.ID[:], name)
	for i := 0; i < len(configs); i += 2 {
		command.Configs[configs[i]] = configs[i+1]
	}
	c.propose(command)
}

// use makes both internal topics appear, by a group and a transactional ID.
func (c *cluster) use() {
	c.t.Helper()
	c.propose(&metadata.UpdateGroup{Group: "g", Kind: metadata.GroupClassic})
	c.propose(&metadata.InitTransaction{TransactionalID: "x", TimeoutMs: 60_000, ProducerID: -1, ProducerEpoch: -1})
}

func (c *cluster) topic(name string) (found *metadata.Topic) {
	c.t.Helper()
	_, err := c.owner.Read(func(s *metadata.State) { found, _ = s.TopicByName(name) })
	require.NoError(c.t, err)
	return found
}

func ptr(s string) *string { return &s }

func TestAPIs_AnswerWhatIsForwarded(t *testing.T) {
	keys := map[int16]bool{}
	for _, key := range new(admin.APIs).Keys() {
		keys[key] = true
	}
	for _, entry := range kafkaproto.Table() { // others are the coordinators'
		require.True(t, !keys[entry.Key] || entry.By == kafkaproto.ByControlPlane, entry.Name)
	}
}

func TestHandle_RefusesWhatItCannotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run(t, func(c *cluster) {
			for _, f := range []*api.Forward{
				{ApiKey: 0},
				{ApiKey: 999},
				{ApiKey: 19, ApiVersion: 99},
				{ApiKey: 19, ApiVersion: -1},
				{ApiKey: 19, ApiVersion: 7, Body: []byte{0xff, 0xff, 0xff}},
			} {
				_, err := c.apis.Handle(t.Context(), f)
				require.ErrorIs(t, err, session.ErrBadRequest, f)
			}
		})
	})
}

func TestCreateTopics(t *testing.T) {
	type topic = kmsg.CreateTopicsRequestTopic
	config := func(name, value string) []kmsg.CreateTopicsRequestTopicConfig {
		return []kmsg.CreateTopicsRequestTopicConfig{{Name: name, Value: &value}}
	}
	cases := []struct {
		in      topic
		err     *kerr.Error
		message string
		count   int32
		factor  int16
	}{
		{in: topic{Topic: "plain", NumPartitions: 2, ReplicationFactor: 2}, count: 2, factor: 2},
		{in: topic{Topic: "defaults", NumPartitions: -1, ReplicationFactor: -1}, count: 3, factor: 3},
		{in: topic{Topic: "three", NumPartitions: 1, ReplicationFactor: 3}, count: 1, factor: 3},
		{in: topic{Topic: "four", NumPartitions: 1, ReplicationFactor: 4}, err: kerr.InvalidReplicationFactor, message: "Unable to replicate the partition 4 time(s): The target replication factor of 4 cannot be reached because only 3 broker(s) are registered."},
		{in: topic{Topic: "seventeen", NumPartitions: 1, ReplicationFactor: 17}, err: kerr.InvalidReplicationFactor, message: "A topic has a replication factor of at most 16."},
		{in: topic{Topic: "four-assigned", NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{
			{Replicas: []int32{1, 2, 3, 4}},
		}}, err: kerr.InvalidReplicationFactor},
		{in: topic{Topic: "assigned", NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{
			{Partition: 1, Replicas: []int32{1, 9}}, {Partition: 0, Replicas: []int32{9, 1}},
		}}, count: 2, factor: 2},
		{in: topic{Topic: "configured", NumPartitions: 1, ReplicationFactor: 1, Configs: config("retention.ms", "5")}, count: 1, factor: 1},
		{in: topic{Topic: "there", NumPartitions: 1, ReplicationFactor: 1}, err: kerr.TopicAlreadyExists, message: "Topic 'there' already exists."},
		{in: topic{Topic: "with_dot", NumPartitions: 1, ReplicationFactor: 1}, err: kerr.InvalidTopicException, message: "Topic 'with_dot' collides with existing topic: with.dot"},
		{in: topic{Topic: "", NumPartitions: 1, ReplicationFactor: 1}, err: kerr.InvalidTopicException, message: "Topic name is invalid: the empty string is not allowed"},
		{in: topic{Topic: "a/b", NumPartitions: 1, ReplicationFactor: 1}, err: kerr.InvalidTopicException, message: "Topic name is invalid: 'a/b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
		{in: topic{Topic: strings.Repeat("x", 250), NumPartitions: 1, ReplicationFactor: 1}, err: kerr.InvalidTopicException},
		{in: topic{Topic: "__cluster_metadata", NumPartitions: 1, ReplicationFactor: 1}, err: kerr.InvalidRequest},
		{in: topic{Topic: "none", NumPartitions: 0, ReplicationFactor: 1}, err: kerr.InvalidPartitions, message: "Number of partitions was set to an invalid non-positive value."},
		{in: topic{Topic: "unreplicated", NumPartitions: 1, ReplicationFactor: 0}, err: kerr.InvalidReplicationFactor, message: "Replication factor must be larger than 0, or -1 to use the default value."},
		{in: topic{Topic: "huge", NumPartitions: 10_001, ReplicationFactor: 1}, err: kerr.PolicyViolation},
		{in: topic{Topic: "unknown", NumPartitions: 1, ReplicationFactor: 1, Configs: config("no.such", "5")}, err: kerr.InvalidConfig, message: "Unknown topic config name: no.such"},
		{in: topic{Topic: "null", NumPartitions: 1, ReplicationFactor: 1, Configs: []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}}, err: kerr.InvalidConfig, message: "Null value not supported for topic configs: retention.ms"},
		{in: topic{Topic: "sparse", NumPartitions: -1, ReplicationFactor: -1, ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 1, Replicas: []int32{1}}}}, err: kerr.InvalidReplicaAssignment, message: "partitions should be a consecutive 0-based integer sequence"},
		{in: topic{Topic: "both", NumPartitions: 1, ReplicationFactor: -1, ReplicaAssignment: []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Replicas: []int32{1}}}}, err: kerr.InvalidRequest},
	}
	test(t, kmsg.CreateTopics, func(c *cluster, version int16) {
		c.create("there", 1)
		c.create("with.dot", 1)
		in := kmsg.NewPtrCreateTopicsRequest()
		for i := range cases {
			in.Topics = append(in.Topics, cases[i].in)
		}
		for _, validateOnly := range []bool{true, false} {
			in.ValidateOnly = validateOnly
			out := ask[*kmsg.CreateTopicsResponse](c, in, version)
			require.Len(c.t, out.Topics, len(cases))
			for i, want := range cases {
				got := out.Topics[i]
				require.Equal(c.t, want.in.Topic, got.Topic)
				if want.err != nil {
					require.Equal(c.t, want.err.Code, got.ErrorCode, "%s: %v", got.Topic, got.ErrorMessage)
					require.NotNil(c.t, got.ErrorMessage)
					if want.message != "" {
						require.Equal(c.t, want.message, *got.ErrorMessage)
					}
					continue
				}
				require.Zero(c.t, got.ErrorCode, "%s: %v", got.Topic, got.ErrorMessage)
				created := c.topic(got.Topic)
				if validateOnly {
					require.Nil(c.t, created)
					continue
				}
				require.Equal(c.t, want.count, created.Partitions)
				require.Equal(c.t, want.factor, created.ReplicationFactor)
				if version >= 5 {
					require.Equal(c.t, want.count, got.NumPartitions)
					require.Equal(c.t, want.factor, got.ReplicationFactor)
					require.Len(c.t, got.Configs, len(topicconfig.All()))
				}
				if version >= 7 {
					require.Equal(c.t, [16]byte(created.ID), got.TopicID)
				}
			}
		}
		require.Equal(c.t, map[string]string{"retention.ms": "5"}, c.topic("configured").Configs)

		in.Topics = []topic{{Topic: "twice", NumPartitions: 1, ReplicationFactor: 1}, {Topic: "twice", NumPartitions: 1, ReplicationFactor: 1}}
		out := ask[*kmsg.CreateTopicsResponse](c, in, version)
		require.Len(c.t, out.Topics, 1)
		require.Equal(c.t, kerr.InvalidRequest.Code, out.Topics[0].ErrorCode)
	})
}

func TestDeleteTopics(t *testing.T) {
	test(t, kmsg.DeleteTopics, func(c *cluster, version int16) {
		c.create("a", 1)
		c.create("b", 1)
		in := kmsg.NewPtrDeleteTopicsRequest()
		b := c.topic("b").ID
		if version < 6 {
			in.TopicNames = []string{"a", "b", "none", "a"}
			out := ask[*kmsg.DeleteTopicsResponse](c, in, version)
			require.Equal(c.t, []int16{kerr.InvalidRequest.Code, 0, kerr.UnknownTopicOrPartition.Code}, codes(out))
			require.NotNil(c.t, c.topic("a"), "what is named twice is not deleted")
		} else {
			in.Topics = []kmsg.DeleteTopicsRequestTopic{
				{Topic: ptr("a")}, {TopicID: b}, {Topic: ptr("none")}, {TopicID: id.Topic{9}}, {}, {Topic: ptr("x"), TopicID: b},
			}
			out := ask[*kmsg.DeleteTopicsResponse](c, in, version)
			require.Equal(c.t, []int16{
				0, 0, kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicID.Code, kerr.InvalidRequest.Code, kerr.InvalidRequest.Code,
			}, codes(out))
			require.Equal(c.t, "b", *out.Topics[1].Topic)
			require.Nil(c.t, c.topic("a"))
		}
		require.Nil(c.t, c.topic("b"))
	})
}

func codes(out *kmsg.DeleteTopicsResponse) (all []int16) {
	for _, t := range out.Topics {
		all = append(all, t.ErrorCode)
	}
	return all
}

func TestCreatePartitions(t *testing.T) {
	test(t, kmsg.CreatePartitions, func(c *cluster, version int16) {
		for _, name := range []string{"grow", "same", "less", "assigned"} {
			c.create(name, 2)
		}
		in := kmsg.NewPtrCreatePartitionsRequest()
		in.Topics = []kmsg.CreatePartitionsRequestTopic{
			{Topic: "grow", Count: 5},
			{Topic: "same", Count: 2},
			{Topic: "less", Count: 1},
			{Topic: "none", Count: 9},
			{Topic: "assigned", Count: 4, Assignment: []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: []int32{1}}}},
			{Topic: "twice", Count: 4},
			{Topic: "twice", Count: 4},
		}
		out := ask[*kmsg.CreatePartitionsResponse](c, in, version)
		var got []string
		for _, topic := range out.Topics {
			message := ""
			if topic.ErrorMessage != nil {
				message = *topic.ErrorMessage
			}
			got = append(got, fmt.Sprintf("%s %d %s", topic.Topic, topic.ErrorCode, message))
		}
		require.Equal(c.t, []string{
			"grow 0 ",
			"same 37 Topic already has 2 partition(s).",
			"less 37 The topic less currently has 2 partition(s); 1 would not be an increase.",
			"none 3 " + kerr.UnknownTopicOrPartition.Description,
			"assigned 39 Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
			"twice 42 Duplicate topic name.",
		}, got)
		require.Equal(c.t, int32(5), c.topic("grow").Partitions)
		in.Topics, in.ValidateOnly = in.Topics[:1], true
		in.Topics[0].Count = 6
		require.Zero(c.t, ask[*kmsg.CreatePartitionsResponse](c, in, version).Topics[0].ErrorCode)
		require.Equal(c.t, int32(5), c.topic("grow").Partitions)
	})
}

func TestDescribeCluster(t *testing.T) {
	test(t, kmsg.DescribeCluster, func(c *cluster, version int16) {
		in := kmsg.NewPtrDescribeClusterRequest()
		out := ask[*kmsg.DescribeClusterResponse](c, in, version)
		require.Equal(c.t, "the-cluster", out.ClusterID)
		require.Len(c.t, out.Brokers, 2, "the client's zone has two nodes")
		require.Equal(c.t, out.Brokers[0].NodeID, out.ControllerID)
		require.Equal(c.t, "a", *out.Brokers[0].Rack)
		if version >= 1 {
			in.EndpointType = 2
			require.Equal(c.t, kerr.MismatchedEndpointType.Code, ask[*kmsg.DescribeClusterResponse](c, in, version).ErrorCode)
			in.EndpointType = 3
			require.Equal(c.t, kerr.UnsupportedEndpointType.Code, ask[*kmsg.DescribeClusterResponse](c, in, version).ErrorCode)
		}
	})
}

func TestDescribeTopicPartitions(t *testing.T) {
	test(t, kmsg.DescribeTopicPartitions, func(c *cluster, version int16) {
		c.use()
		c.create("a", 3)
		c.create("b", 3)
		c.create("c", 1)
		in := kmsg.NewPtrDescribeTopicPartitionsRequest()
		in.ResponsePartitionLimit = 2
		var pages []string
		for {
			out := ask[*kmsg.DescribeTopicPartitionsResponse](c, in, version)
			page := ""
			for _, topic := range out.Topics {
				for _, p := range topic.Partitions {
					page += fmt.Sprintf("%s-%d ", *topic.Topic, p.Partition)
					require.Contains(c.t, []int32{1, 2}, p.LeaderID)
					require.Equal(c.t, p.LeaderID, p.ISR[0])
					require.ElementsMatch(c.t, []int32{1, 2}, p.ISR, "all nodes of the zone, since the factor is 3")
				}
			}
			pages = append(pages, strings.TrimSpace(page))
			if out.NextCursor == nil {
				break
			}
			in.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: out.NextCursor.Topic, Partition: out.NextCursor.Partition}
		}
		internal := 2 * internaltopic.Partitions / 2 // of the two internal topics
		require.Equal(c.t, "__consumer_offsets-0 __consumer_offsets-1", pages[0])
		require.Equal(c.t, "__transaction_state-48 __transaction_state-49", pages[internal-1])
		require.Equal(c.t, []string{"a-0 a-1", "a-2 b-0", "b-1 b-2", "c-0"}, pages[internal:])

		in.Cursor = nil
		in.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "none"}, {Topic: "c"}}
		out := ask[*kmsg.DescribeTopicPartitionsResponse](c, in, version)
		require.Equal(c.t, "c", *out.Topics[0].Topic)
		require.Equal(c.t, kerr.UnknownTopicOrPartition.Code, out.Topics[1].ErrorCode)
		in.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: "x"}
		require.Equal(c.t, kerr.InvalidRequest.Code, ask[*kmsg.DescribeTopicPartitionsResponse](c, in, version).Topics[0].ErrorCode)
	})
}

// TestDescribeTopicPartitions_Epochs: the leader epoch is the membership's version, and rises with further partitions.
func TestDescribeTopicPartitions_Epochs(t *testing.T) {
	test(t, kmsg.DescribeTopicPartitions, func(c *cluster, version int16) {
		c.create("t", 4)
		var before uint64
		_, err := c.owner.Read(func(s *metadata.State) { before = s.MembershipVersion() })
		require.NoError(c.t, err)
		c.propose(&metadata.CreatePartitions{ID: c.topic("t").ID, Count: 40})
		in := kmsg.NewPtrDescribeTopicPartitionsRequest()
		in.Topics, in.ResponsePartitionLimit = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}}, 40
		partitions := ask[*kmsg.DescribeTopicPartitionsResponse](c, in, version).Topics[0].Partitions
		require.Len(c.t, partitions, 40)
		for _, p := range partitions {
			require.EqualValues(c.t, before+1, p.LeaderEpoch)
		}
	})
}

func TestDescribeLogDirs_NodesAddUpToWhatIsStored(t *testing.T) {
	test(t, kmsg.DescribeLogDirs, func(c *cluster, version int16) {
		c.create("a", 4)
		var b commit.Builder
		b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: 1}, Bytes: 4000})
		for p := range int32(4) {
			b.Section(commit.Section{Partition: id.TopicPartition{Topic: c.topic("a").ID, Partition: p}, Position: uint32(1000 * p)})
			b.Batch(commit.Batch{Records: 1, Bytes: 500 + p, ProducerID: commit.NoProducer})
		}
		c.propose(&metadata.CommitBundle{Encoded: b.AppendTo(nil)})
		total, partitions := int64(0), 0
		for _, node := range []int32{1, 2} {
			c.node = node
			out := ask[*kmsg.DescribeLogDirsResponse](c, kmsg.NewPtrDescribeLogDirsRequest(), version)
			require.Len(c.t, out.Dirs, 1)
			for _, topic := range out.Dirs[0].Topics {
				for _, p := range topic.Partitions {
					total += p.Size
					partitions++
				}
			}
		}
		require.Equal(c.t, 4, partitions)
		require.Equal(c.t, int64(2006), total)
	})
}
