package admin_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
)

// TestBounds_NamedInTheAnswer: at the bound of the metadata's memory, a new topic, new partitions and a group's config are refused,
// retriably, with the bound and its flag in the message. Requests that need no memory are taken.
func TestBounds_NamedInTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const bound = 64 << 10
		runBounded(t, owner.Config{MaxBytes: bound}, func(c *cluster) {
			c.create("t", 1)
			value := string(make([]byte, bound*9/10)) // the estimate of its memory is above 9/8 of the bound, and below 5/4
			c.propose(&metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"k": value}})
			refused := func(code int16, message *string) {
				t.Helper()
				require.Equal(t, kerr.ThrottlingQuotaExceeded.Code, code)
				require.Contains(t, *message, "bound of memory")
				require.Contains(t, *message, "--memory-limit")
			}
			create := kmsg.NewPtrCreateTopicsRequest()
			create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: "new", NumPartitions: 1, ReplicationFactor: 1}, {Topic: "t", NumPartitions: 1, ReplicationFactor: 1}}
			created := ask[*kmsg.CreateTopicsResponse](c, create, 7)
			require.EqualValues(t, 1000, created.ThrottleMillis)
			topics := created.Topics
			refused(topics[0].ErrorCode, topics[0].ErrorMessage)
			require.Equal(t, kerr.TopicAlreadyExists.Code, topics[1].ErrorCode)
			require.Nil(t, c.topic("new"))

			grow := kmsg.NewPtrCreatePartitionsRequest()
			grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 2}}
			grown := ask[*kmsg.CreatePartitionsResponse](c, grow, 3)
			require.EqualValues(t, 1000, grown.ThrottleMillis)
			refused(grown.Topics[0].ErrorCode, grown.Topics[0].ErrorMessage)
			require.EqualValues(t, 1, c.topic("t").Partitions)

			alter := kmsg.NewPtrIncrementalAlterConfigsRequest()
			alter.Resources = []kmsg.IncrementalAlterConfigsRequestResource{
				{ResourceType: kmsg.ConfigResourceTypeGroupConfig, ResourceName: "g", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{
					{Name: "consumer.session.timeout.ms", Value: ptr("50000")},
				}},
				{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t", Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{
					{Name: "retention.ms", Value: ptr("1")},
				}},
			}
			altered := ask[*kmsg.IncrementalAlterConfigsResponse](c, alter, 1).Resources
			refused(altered[0].ErrorCode, altered[0].ErrorMessage)
			require.Zero(t, altered[1].ErrorCode)
		})
	})
}

// TestLimits_AreAPolicy: at a limit of the state, new topics, partitions and configs are POLICY_VIOLATION, with the limit and its setting in the
// message. A change without growth passes.
func TestLimits_AreAPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runBounded(t, owner.Config{}, func(c *cluster) {
			c.create("t", 1)
			limits := metadata.Limits{metadata.LimitTopics: 2, metadata.LimitPartitions: 4, metadata.LimitTextBytes: 30}
			c.propose(&metadata.SetLimits{Limits: limits})
			refused := func(kind metadata.LimitKind, code int16, message *string) {
				t.Helper()
				require.Equal(t, kerr.PolicyViolation.Code, code)
				require.Equal(t, (&metadata.LimitError{Kind: kind, Limit: limits[kind]}).Error(), *message)
				require.Contains(t, *message, kind.Setting())
			}
			create := kmsg.NewPtrCreateTopicsRequest()
			for _, name := range []string{"many", "one", "two"} {
				partitions := map[string]int32{"many": 4, "one": 1, "two": 1}[name]
				create.Topics = []kmsg.CreateTopicsRequestTopic{{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}}
				created := ask[*kmsg.CreateTopicsResponse](c, create, 7)
				require.Zero(t, created.ThrottleMillis)
				switch topic := created.Topics[0]; name {
				case "many":
					refused(metadata.LimitPartitions, topic.ErrorCode, topic.ErrorMessage)
				case "one":
					require.Zero(t, topic.ErrorCode)
				case "two":
					refused(metadata.LimitTopics, topic.ErrorCode, topic.ErrorMessage)
				}
			}

			grow := kmsg.NewPtrCreatePartitionsRequest()
			grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: "t", Count: 4}}
			grown := ask[*kmsg.CreatePartitionsResponse](c, grow, 3).Topics[0]
			refused(metadata.LimitPartitions, grown.ErrorCode, grown.ErrorMessage)

			alter := func(value string) kmsg.IncrementalAlterConfigsResponseResource {
				in := kmsg.NewPtrIncrementalAlterConfigsRequest()
				in.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
					ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t",
					Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: ptr(value)}},
				}}
				return ask[*kmsg.IncrementalAlterConfigsResponse](c, in, 1).Resources[0]
			}
			require.Zero(t, alter("1000000").ErrorCode)
			require.Zero(t, alter("2000000").ErrorCode)
			long := alter("200000000000000000")
			refused(metadata.LimitTextBytes, long.ErrorCode, long.ErrorMessage)
		})
	})
}
