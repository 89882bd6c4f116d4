package admin_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata"
)

// inCluster runs fn on a fresh cluster in a bubble.
func inCluster(t *testing.T, fn func(c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { run(t, fn) })
}

// TestInternalTopics_AppearWithTheirUse: __consumer_offsets is there while there is a group, __transaction_state while there is a
// transactional ID. Neither name can be taken meanwhile.
func TestInternalTopics_AppearWithTheirUse(t *testing.T) {
	inCluster(t, func(c *cluster) {
		shown := func() (names []string) {
			in := kmsg.NewPtrDescribeTopicPartitionsRequest()
			in.ResponsePartitionLimit = 2000
			for _, topic := range ask[*kmsg.DescribeTopicPartitionsResponse](c, in, 0).Topics {
				names = append(names, *topic.Topic)
			}
			for _, topic := range internaltopic.All() {
				create := kmsg.NewPtrCreateTopicsRequest()
				create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: topic.Name, NumPartitions: 1, ReplicationFactor: 1}}
				require.Equal(t, kerr.TopicAlreadyExists.Code, ask[*kmsg.CreateTopicsResponse](c, create, 7).Topics[0].ErrorCode)
				configs := kmsg.NewPtrDescribeConfigsRequest()
				configs.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic.Name}}
				want := int16(0)
				if !slices.Contains(names, topic.Name) {
					want = kerr.UnknownTopicOrPartition.Code
				}
				require.Equal(t, want, ask[*kmsg.DescribeConfigsResponse](c, configs, 4).Resources[0].ErrorCode)
			}
			return names
		}
		require.Empty(t, shown())
		c.propose(&metadata.UpdateGroup{Group: "g", Kind: metadata.GroupClassic})
		require.Equal(t, []string{"__consumer_offsets"}, shown())
		c.use()
		require.Equal(t, []string{"__consumer_offsets", "__transaction_state"}, shown())
		c.propose(&metadata.DeleteGroup{Group: "g"})
		require.Equal(t, []string{"__transaction_state"}, shown())
	})
}

// TestInternalTopics_AreDescribed: both are there, with Kafka's configs.
func TestInternalTopics_AreDescribed(t *testing.T) {
	inCluster(t, func(c *cluster) {
		c.use()
		for _, topic := range internaltopic.All() {
			in := kmsg.NewPtrDescribeTopicPartitionsRequest()
			in.Topics = []kmsg.DescribeTopicPartitionsRequestTopic{{Topic: topic.Name}}
			in.ResponsePartitionLimit = 2000
			got := ask[*kmsg.DescribeTopicPartitionsResponse](c, in, 0).Topics[0]
			require.True(t, got.IsInternal)
			require.Equal(t, [16]byte(topic.ID), got.TopicID)
			require.Len(t, got.Partitions, internaltopic.Partitions)

			configs := kmsg.NewPtrDescribeConfigsRequest()
			configs.Resources = []kmsg.DescribeConfigsRequestResource{
				{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic.Name},
			}
			values := map[string]string{}
			for _, entry := range ask[*kmsg.DescribeConfigsResponse](c, configs, 4).Resources[0].Configs {
				if entry.Source == kmsg.ConfigSourceDynamicTopicConfig {
					values[entry.Name] = *entry.Value
				}
			}
			require.Equal(t, topic.Configs, values)
		}
	})
}

// TestInternalTopics_CannotBeChanged: there is nothing in the state to be created, deleted, extended or configured.
func TestInternalTopics_CannotBeChanged(t *testing.T) {
	const name = "__consumer_offsets"
	inCluster(t, func(c *cluster) {
		c.use()
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: 1, ReplicationFactor: 1}}
		require.Equal(t, kerr.TopicAlreadyExists.Code, ask[*kmsg.CreateTopicsResponse](c, create, 7).Topics[0].ErrorCode)

		remove := kmsg.NewPtrDeleteTopicsRequest()
		byName := kmsg.NewDeleteTopicsRequestTopic()
		byName.Topic = kmsg.StringPtr(name)
		byID := kmsg.NewDeleteTopicsRequestTopic()
		byID.TopicID = internaltopic.Transactions.ID
		remove.Topics = []kmsg.DeleteTopicsRequestTopic{byName, byID}
		for _, topic := range ask[*kmsg.DeleteTopicsResponse](c, remove, 6).Topics {
			require.Equal(t, kerr.InvalidTopicException.Code, topic.ErrorCode)
		}

		extend := kmsg.NewPtrCreatePartitionsRequest()
		extend.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 60}}
		require.Equal(t, kerr.InvalidTopicException.Code, ask[*kmsg.CreatePartitionsResponse](c, extend, 3).Topics[0].ErrorCode)

		alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
		alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
			ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: name,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: kmsg.StringPtr("1000")}},
		}}
		require.Equal(t, kerr.InvalidTopicException.Code, ask[*kmsg.IncrementalAlterConfigsResponse](c, alter, 1).Resources[0].ErrorCode)

		trim := kmsg.NewPtrDeleteRecordsRequest()
		trim.Topics = []kmsg.DeleteRecordsRequestTopic{{
			Topic: name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: 0, Offset: -1}},
		}}
		require.Equal(t, kerr.InvalidTopicException.Code, ask[*kmsg.DeleteRecordsResponse](c, trim, 2).Topics[0].Partitions[0].ErrorCode)
	})
}
