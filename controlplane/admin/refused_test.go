package admin_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
)

func topicOf(name string, partitions int32, factor int16) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, factor
	return t
}

func (c *cluster) createAll(topics ...kmsg.CreateTopicsRequestTopic) (codes []int16) {
	in := kmsg.NewPtrCreateTopicsRequest()
	in.Topics = topics
	for _, t := range ask[*kmsg.CreateTopicsResponse](c, in, 5).Topics {
		codes = append(codes, t.ErrorCode)
	}
	return codes
}

// A topic that was refused for its factor is not created, so it holds back no later one of the request.
func TestCreateTopics_RefusedFactorTakesNoName(t *testing.T) {
	inCluster(t, func(c *cluster) {
		require.Equal(c.t, []int16{kerr.InvalidReplicationFactor.Code, 0}, c.createAll(topicOf("a.b", 1, 17), topicOf("a_b", 1, 1)))
	})
}

// ... and its partitions do not count against the bound of a request.
func TestCreateTopics_RefusedFactorTakesNoPartitions(t *testing.T) {
	inCluster(t, func(c *cluster) {
		require.Equal(c.t, []int16{kerr.InvalidReplicationFactor.Code, 0}, c.createAll(topicOf("x", 10_000, 17), topicOf("y", 1, 1)))
	})
}

// A refused manual assignment must not lift the bound of 10,000 partitions of a request.
func TestCreateTopics_RefusedAssignmentDoesNotLiftTheBound(t *testing.T) {
	inCluster(t, func(c *cluster) {
		bad := topicOf("bad", -2_000_000_000, -1) // refused: numPartitions must be -1
		bad.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{1}}}
		got := c.createAll(bad, topicOf("huge", metadata.MaxPartitions, 1))
		require.Equal(c.t, []int16{kerr.InvalidRequest.Code, kerr.PolicyViolation.Code}, got)
	})
}

// In a cluster with fewer nodes than the factor, a tool assigns new partitions as many replicas as it reads of the others.
// AlterPartitionReassignments takes these (reassignment.stays).
func TestCreatePartitions_TakesTheShownNumberOfReplicas(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.create("t", 1) // factor 3; a client of zone a sees nodes 1 and 2
		describe := kmsg.NewPtrDescribeTopicPartitionsRequest()
		asked := kmsg.NewDescribeTopicPartitionsRequestTopic()
		asked.Topic = "t"
		describe.Topics, describe.ResponsePartitionLimit = append(describe.Topics, asked), 10
		shown := ask[*kmsg.DescribeTopicPartitionsResponse](c, describe, 0).Topics[0].Partitions[0].Replicas
		require.Len(c.t, shown, 2)
		in := kmsg.NewPtrCreatePartitionsRequest()
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = "t", 2
		topic.Assignment = []kmsg.CreatePartitionsRequestTopicAssignment{{Replicas: shown}}
		in.Topics = append(in.Topics, topic)
		out := ask[*kmsg.CreatePartitionsResponse](c, in, 3).Topics[0]
		require.Zero(c.t, out.ErrorCode, "%v", out.ErrorMessage)
	})
}

func reassigned(name string, replicas ...[]int32) kmsg.AlterPartitionAssignmentsRequestTopic {
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = name
	for i, r := range replicas {
		p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
		p.Partition, p.Replicas = int32(i), r
		t.Partitions = append(t.Partitions, p)
	}
	return t
}

// The last entry of a topic counts, as in Kafka, or a repetition is refused: both entries succeed, so the factor must be the last one's.
func TestAlterPartitionReassignments_TopicTwice(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.create("t", 1)
		in := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		in.AllowReplicationFactorChange = true
		in.Topics = append(in.Topics, reassigned("t", []int32{1}), reassigned("t", []int32{1, 2, 3}))
		out := ask[*kmsg.AlterPartitionAssignmentsResponse](c, in, 1)
		require.Zero(c.t, out.Topics[0].Partitions[0].ErrorCode)
		if out.Topics[1].Partitions[0].ErrorCode == 0 {
			require.EqualValues(c.t, 3, c.topic("t").ReplicationFactor, "the second entry was answered with success")
		}
	})
}

// A request does not compute the nodes of all partitions of a topic that it names.
func TestAlterPartitionReassignments_LargeTopic(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.create("t", 100_000)
		cost := func(entries int) uint64 {
			in := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			for range entries {
				in.Topics = append(in.Topics, reassigned("t", []int32{1, 2, 3}))
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			ask[*kmsg.AlterPartitionAssignmentsResponse](c, in, 1)
			runtime.ReadMemStats(&after)
			return after.TotalAlloc - before.TotalAlloc
		}
		require.Less(c.t, cost(50), uint64(1<<20), "bytes allocated")
	})
}

// Clients of one listener learn no addresses of another one: no other API shows them.
func TestDescribeConfigs_ShowsNoOtherListener(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.propose(&metadata.OpenSession{Instance: "c", Zone: "c", Endpoints: []metadata.Endpoint{
			{Listener: "external", Host: "public.example.com", Port: 9092}, {Listener: "internal", Host: "10.0.0.7", Port: 9093},
		}})
		var nodes []int32
		_, err := c.owner.Read(func(s *metadata.State) {
			for info := range s.Sessions() {
				if info.Zone == "c" {
					nodes = info.NodeIDs
				}
			}
		})
		require.NoError(c.t, err)
		c.from = &api.Forward{Zone: "c", Listener: "external", Node: nodes[0]}
		for _, b := range ask[*kmsg.DescribeClusterResponse](c, kmsg.NewPtrDescribeClusterRequest(), 0).Brokers {
			require.NotEqual(c.t, nodes[1], b.NodeID)
		}
		in := kmsg.NewPtrDescribeConfigsRequest()
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, fmt.Sprint(nodes[1])
		in.Resources = append(in.Resources, r)
		for _, e := range ask[*kmsg.DescribeConfigsResponse](c, in, 4).Resources[0].Configs {
			if e.Value != nil {
				require.NotContains(c.t, *e.Value, "10.0.0.7", e.Name)
			}
		}
	})
}

// A topic cannot come back under the name of an internal topic. The name is not free: views of agents and of the owner differ from then on.
func TestUndelete_AsAnInternalTopic(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.use()
		c.create("t", 1)
		c.propose(&metadata.DeleteTopic{ID: c.topic("t").ID, KeepMs: 3_600_000})
		_, err := c.apis.UndeleteTopic(c.t.Context(), "t", "__consumer_offsets")
		require.Error(c.t, err)
	})
}

// An older agent does not say whether it creates topics. Agents do by default, and so does Kafka: "false" is a guess, and wrong.
func TestDescribeConfigs_AutoCreateOfAnOlderAgent(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.from = &api.Forward{Zone: "a", Node: 1} // without auto_create_topics
		in := kmsg.NewPtrDescribeConfigsRequest()
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
		in.Resources = append(in.Resources, r)
		for _, e := range ask[*kmsg.DescribeConfigsResponse](c, in, 4).Resources[0].Configs {
			if e.Name == "auto.create.topics.enable" {
				require.Equal(c.t, "true", *e.Value)
			}
		}
	})
}

// A partition whose new number of replicas is not taken, because another partition of the topic is at fault, is not answered with success.
func TestAlterPartitionReassignments_OneFaultyPartition(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.create("t", 2)
		in := kmsg.NewPtrAlterPartitionAssignmentsRequest()
		in.AllowReplicationFactorChange = true
		in.Topics = append(in.Topics, reassigned("t", []int32{1}, []int32{-1}))
		out := ask[*kmsg.AlterPartitionAssignmentsResponse](c, in, 1).Topics[0]
		require.Equal(c.t, kerr.InvalidReplicaAssignment.Code, out.Partitions[1].ErrorCode)
		if out.Partitions[0].ErrorCode == 0 {
			require.EqualValues(c.t, 1, c.topic("t").ReplicationFactor, "partition 0 was answered with success")
		}
	})
}
