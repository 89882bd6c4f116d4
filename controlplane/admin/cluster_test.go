package admin_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// produce gives a partition so many records.
func (c *cluster) produce(topic string, partition int32, n uint32, records int32) {
	c.t.Helper()
	var b commit.Builder
	b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: n}, Bytes: 1000})
	b.Section(commit.Section{Partition: id.TopicPartition{Topic: c.topic(topic).ID, Partition: partition}})
	b.Batch(commit.Batch{Records: records, Bytes: 500, ProducerID: commit.NoProducer})
	c.propose(&metadata.CommitBundle{Encoded: b.AppendTo(nil)})
}

func TestDeleteRecords(t *testing.T) {
	test(t, kmsg.DeleteRecords, func(c *cluster, version int16) {
		c.create("t", 3)
		c.create("compacted", 1, "cleanup.policy", "compact")
		c.create("both", 1, "cleanup.policy", "compact,delete")
		c.produce("t", 0, 1, 10)
		c.produce("t", 1, 2, 10)
		ask := func(wants ...string) []string {
			in := kmsg.NewPtrDeleteRecordsRequest()
			for _, w := range wants {
				var p kmsg.DeleteRecordsRequestTopicPartition
				topic := kmsg.NewDeleteRecordsRequestTopic()
				_, err := fmt.Sscanf(w, "%s %d %d", &topic.Topic, &p.Partition, &p.Offset)
				require.NoError(c.t, err)
				topic.Partitions = append(topic.Partitions, p)
				in.Topics = append(in.Topics, topic)
			}
			var got []string
			for _, topic := range ask[*kmsg.DeleteRecordsResponse](c, in, version).Topics {
				for _, p := range topic.Partitions {
					got = append(got, fmt.Sprintf("%s-%d %d %d", topic.Topic, p.Partition, p.LowWatermark, p.ErrorCode))
				}
			}
			return got
		}
		require.Equal(c.t, []string{"t-0 4 0", "t-1 10 0", "t-2 0 0"}, ask("t 0 4", "t 1 -1", "t 2 -1"))
		require.Equal(c.t, []string{"t-0 4 0"}, ask("t 0 2"), "a log start never goes back")
		require.Equal(c.t, []string{
			"t-0 -1 1", "t-1 -1 1", "t-9 -1 3", "none-0 -1 3", "compacted-0 -1 44", "both-0 0 0",
		}, ask("t 0 11", "t 1 -2", "t 9 0", "none 0 0", "compacted 0 0", "both 0 0"))
		require.Equal(c.t, []string{"t-0 6 0", "none-0 -1 3"}, ask("t 0 9", "none 0 0", "t 0 5", "none 0 0", "t 0 6"), "the last offset counts")
	})
}

func TestElectLeaders(t *testing.T) {
	test(t, kmsg.ElectLeaders, func(c *cluster, version int16) {
		c.create("t", 2)
		in := kmsg.NewPtrElectLeadersRequest()
		out := ask[*kmsg.ElectLeadersResponse](c, in, version)
		require.Len(c.t, out.Topics, 1)
		require.Empty(c.t, out.Topics[0].Partitions, "every leader is the preferred one")
		in.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{1, 2}}, {Topic: "none", Partitions: []int32{0}}}
		out = ask[*kmsg.ElectLeadersResponse](c, in, version)
		require.Equal(c.t, kerr.ElectionNotNeeded.Code, out.Topics[0].Partitions[0].ErrorCode)
		require.Equal(c.t, "No such partition as t-2", *out.Topics[0].Partitions[1].ErrorMessage)
		require.Equal(c.t, kerr.UnknownTopicOrPartition.Code, out.Topics[1].Partitions[0].ErrorCode)
		if version >= 1 {
			in.ElectionType = 2
			require.Equal(c.t, kerr.InvalidRequest.Code, ask[*kmsg.ElectLeadersResponse](c, in, version).ErrorCode)
		}
	})
}

func TestAlterPartitionReassignments(t *testing.T) {
	test(t, kmsg.AlterPartitionAssignments, func(c *cluster, version int16) {
		c.create("t", 2) // with factor 3
		for _, p := range []struct {
			partition int32
			replicas  []int32
			stay      bool
			err       *kerr.Error
		}{
			{0, []int32{2, 1, 3}, true, nil},
			{0, []int32{77, 2, 1}, false, nil},
			{0, []int32{77, 2}, true, nil}, // as many as the client sees
			{0, []int32{77}, true, kerr.InvalidReplicationFactor},
			{0, []int32{77}, false, kerr.InvalidReplicationFactor}, // of one of two partitions
			{0, nil, false, kerr.NoReassignmentInProgress},
			{0, []int32{}, false, kerr.InvalidReplicaAssignment},
			{0, []int32{1, 1}, false, kerr.InvalidReplicaAssignment},
			{9, []int32{1}, false, kerr.UnknownTopicOrPartition},
		} {
			if p.stay && version == 0 {
				continue
			}
			in := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			in.AllowReplicationFactorChange = !p.stay
			in.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{
				Topic:      "t",
				Partitions: []kmsg.AlterPartitionAssignmentsRequestTopicPartition{{Partition: p.partition, Replicas: p.replicas}},
			}}
			got := ask[*kmsg.AlterPartitionAssignmentsResponse](c, in, version).Topics[0].Partitions[0].ErrorCode
			if p.err == nil {
				require.Zero(c.t, got, p)
				continue
			}
			require.Equal(c.t, p.err.Code, got, p)
		}
		require.EqualValues(c.t, 3, c.topic("t").ReplicationFactor)
	})
	test(t, kmsg.ListPartitionReassignments, func(c *cluster, version int16) {
		c.create("t", 1)
		require.Empty(c.t, ask[*kmsg.ListPartitionReassignmentsResponse](c, kmsg.NewPtrListPartitionReassignmentsRequest(), version).Topics)
	})
}

// An assignment of all partitions of a topic sets its replication factor.
func TestAlterPartitionReassignments_ChangesTheFactor(t *testing.T) {
	test(t, kmsg.AlterPartitionAssignments, func(c *cluster, version int16) {
		type partition = kmsg.AlterPartitionAssignmentsRequestTopicPartition
		c.create("t", 2)
		reassign := func(topic string, partitions ...partition) (codes []int16) {
			in := kmsg.NewPtrAlterPartitionAssignmentsRequest()
			in.Topics = []kmsg.AlterPartitionAssignmentsRequestTopic{{Topic: topic, Partitions: partitions}}
			for _, p := range ask[*kmsg.AlterPartitionAssignmentsResponse](c, in, version).Topics[0].Partitions {
				codes = append(codes, p.ErrorCode)
			}
			return codes
		}
		refused := kerr.InvalidReplicationFactor.Code
		require.Equal(c.t, []int16{0, 0}, reassign("t", partition{Partition: 0, Replicas: []int32{1}}, partition{Partition: 1, Replicas: []int32{2}}))
		require.EqualValues(c.t, 1, c.topic("t").ReplicationFactor)
		in := kmsg.NewPtrDescribeTopicPartitionsRequest()
		in.Topics, in.ResponsePartitionLimit = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: "t"}}, 40
		for _, p := range ask[*kmsg.DescribeTopicPartitionsResponse](c, in, 0).Topics[0].Partitions {
			require.Equal(c.t, []int32{p.LeaderID}, p.Replicas)
		}
		for name, partitions := range map[string][]partition{
			"different counts": {{Partition: 0, Replicas: []int32{1}}, {Partition: 1, Replicas: []int32{2, 3}}},
			"the same twice":   {{Partition: 1, Replicas: []int32{1, 2}}, {Partition: 1, Replicas: []int32{2, 3}}},
			"too many":         {{Partition: 0, Replicas: []int32{1, 2, 3, 4}}, {Partition: 1, Replicas: []int32{1, 2, 3, 4}}},
		} {
			require.Contains(c.t, reassign("t", partitions...), refused, name)
			require.EqualValues(c.t, 1, c.topic("t").ReplicationFactor, name)
		}
		require.Equal(c.t, []int16{kerr.UnknownTopicOrPartition.Code}, reassign("none", partition{Replicas: []int32{1}}))
	})
}

func TestAlterReplicaLogDirs(t *testing.T) {
	test(t, kmsg.AlterReplicaLogDirs, func(c *cluster, version int16) {
		c.create("t", 1)
		in := kmsg.NewPtrAlterReplicaLogDirsRequest()
		topics := []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: "t", Partitions: []int32{0, 1}}}
		in.Dirs = []kmsg.AlterReplicaLogDirsRequestDir{{Dir: "object-store", Topics: topics}, {Dir: "/data", Topics: topics}}
		out := ask[*kmsg.AlterReplicaLogDirsResponse](c, in, version)
		require.Len(c.t, out.Topics, 1)
		var got []int16
		for _, p := range out.Topics[0].Partitions {
			got = append(got, p.ErrorCode)
		}
		require.Equal(c.t, []int16{0, kerr.UnknownTopicOrPartition.Code, kerr.LogDirNotFound.Code, kerr.LogDirNotFound.Code}, got)
	})
}

func TestDescribeQuorum(t *testing.T) {
	test(t, kmsg.DescribeQuorum, func(c *cluster, version int16) {
		in := kmsg.NewPtrDescribeQuorumRequest()
		in.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
		p := ask[*kmsg.DescribeQuorumResponse](c, in, version).Topics[0].Partitions[0]
		require.Zero(c.t, p.ErrorCode)
		controller := ask[*kmsg.DescribeClusterResponse](c, kmsg.NewPtrDescribeClusterRequest(), 0).ControllerID
		require.Equal(c.t, controller, p.LeaderID)
		require.Len(c.t, p.CurrentVoters, 1)
		require.Equal(c.t, p.LeaderID, p.CurrentVoters[0].ReplicaID)
		require.Len(c.t, p.Observers, 1, "the zone's other node")
		require.Positive(c.t, p.HighWatermark)
		in.Topics[0].Partitions[0].Partition = 1
		require.Equal(c.t, kerr.UnknownTopicOrPartition.Code, ask[*kmsg.DescribeQuorumResponse](c, in, version).Topics[0].Partitions[0].ErrorCode)
	})
}

func TestUpdateFeatures(t *testing.T) {
	test(t, kmsg.UpdateFeatures, func(c *cluster, version int16) {
		set := func(levels map[string]int16) *kmsg.UpdateFeaturesResponse {
			in := kmsg.NewPtrUpdateFeaturesRequest()
			for name, level := range levels {
				u := kmsg.NewUpdateFeaturesRequestFeatureUpdate()
				u.Feature, u.MaxVersionLevel, u.UpgradeType = name, level, 1
				in.FeatureUpdates = append(in.FeatureUpdates, u)
			}
			return ask[*kmsg.UpdateFeaturesResponse](c, in, version)
		}
		for _, f := range kafkaproto.Features() {
			out := set(map[string]int16{f.Name: f.Finalized})
			require.Zero(c.t, out.ErrorCode, "the level that is spoken")
			require.Len(c.t, out.Results, map[bool]int{true: 1, false: 0}[version < 2])
			for _, level := range []int16{f.Finalized - 1, f.Finalized + 1, -1} {
				require.Equal(c.t, kerr.InvalidUpdateVersion.Code, set(map[string]int16{f.Name: level}).ErrorCode, "%s %d", f.Name, level)
			}
		}
		out := set(map[string]int16{"metadata.version": kafkaproto.Features()[0].Finalized, "share.version": 1})
		require.Equal(c.t, kerr.InvalidUpdateVersion.Code, out.ErrorCode)
		require.Contains(c.t, *out.ErrorMessage, "feature share.version")
		require.Empty(c.t, out.Results)
	})
}

func TestUnregisterBroker(t *testing.T) {
	test(t, kmsg.UnregisterBroker, func(c *cluster, version int16) {
		in := kmsg.NewPtrUnregisterBrokerRequest()
		in.BrokerID = 99
		require.Equal(c.t, kerr.BrokerIDNotRegistered.Code, ask[*kmsg.UnregisterBrokerResponse](c, in, version).ErrorCode)
		before := ask[*kmsg.DescribeClusterResponse](c, kmsg.NewPtrDescribeClusterRequest(), 0).Brokers
		in.BrokerID = 2
		require.Equal(c.t, kerr.InvalidRequest.Code, ask[*kmsg.UnregisterBrokerResponse](c, in, version).ErrorCode)
		after := ask[*kmsg.DescribeClusterResponse](c, kmsg.NewPtrDescribeClusterRequest(), 0).Brokers
		require.Equal(c.t, before, after, "an agent that runs stays in the cluster")
	})
}

func TestListConfigResources(t *testing.T) {
	test(t, kmsg.ListConfigResources, func(c *cluster, version int16) {
		c.create("t", 1)
		c.propose(&metadata.SetConfigs{Resource: metadata.ConfigGroup, Name: "g", Set: map[string]string{"consumer.session.timeout.ms": "50000"}})
		c.propose(&metadata.SetConfigs{Resource: metadata.ConfigClientMetrics, Name: "m", Set: map[string]string{"metrics": "*"}})
		c.propose(&metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"log.retention.ms": "5"}})
		list := func(types ...int8) string {
			in := kmsg.NewPtrListConfigResourcesRequest()
			in.ResourceTypes = types
			out := ask[*kmsg.ListConfigResourcesResponse](c, in, version)
			var all []string
			for _, r := range out.ConfigResources {
				all = append(all, fmt.Sprintf("%d:%s", r.Type, r.Name))
			}
			return fmt.Sprint(out.ErrorCode, " ", strings.Join(all, " "))
		}
		if version == 0 {
			require.Equal(c.t, "0 16:m", list())
			return
		}
		require.Equal(c.t, "0 32:g 16:m 8:1 8:2 4:1 4:2 2:t", list())
		require.Equal(c.t, "0 32:g 2:t", list(2, 32))
		require.Equal(c.t, "35 ", list(2, 77))
	})
}
