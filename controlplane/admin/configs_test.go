package admin_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/admin"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/internal/assign"
	"github.com/freshet-io/freshet/internal/brokerconfig"
	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/metadata"
)

// describe gives a resource's configs as "name=value source synonyms".
func (c *cluster) describe(version int16, kind kmsg.ConfigResourceType, name string, names ...string) []string {
	c.t.Helper()
	in := kmsg.NewPtrDescribeConfigsRequest()
	in.IncludeSynonyms, in.IncludeDocumentation = true, version >= 3
	in.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: names}}
	out := ask[*kmsg.DescribeConfigsResponse](c, in, version)
	r := out.Resources[0]
	if r.ErrorCode != 0 {
		return []string{fmt.Sprintf("error %d", r.ErrorCode)}
	}
	var all []string
	for _, config := range r.Configs {
		line := fmt.Sprintf("%s=%s %s", config.Name, *config.Value, config.Source)
		for _, s := range config.ConfigSynonyms {
			line += fmt.Sprintf(" %s=%s", s.Name, *s.Value)
		}
		all = append(all, line)
		if version >= 3 {
			require.NotEmpty(c.t, config.Documentation)
			require.NotZero(c.t, config.ConfigType)
		}
	}
	return all
}

func TestDescribeConfigs(t *testing.T) {
	test(t, kmsg.DescribeConfigs, func(c *cluster, version int16) {
		c.create("t", 1, "retention.ms", "5")
		c.propose(&metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"message.max.bytes": "77"}})
		require.Len(c.t, c.describe(version, kmsg.ConfigResourceTypeTopic, "t"), len(topicconfig.All()))
		require.Equal(c.t, []string{
			"max.message.bytes=77 DYNAMIC_DEFAULT_BROKER_CONFIG message.max.bytes=77 message.max.bytes=1048588",
			"retention.ms=5 DYNAMIC_TOPIC_CONFIG retention.ms=5",
			"segment.bytes=1073741824 DEFAULT_CONFIG log.segment.bytes=1073741824",
		}, c.describe(version, kmsg.ConfigResourceTypeTopic, "t", "retention.ms", "segment.bytes", "max.message.bytes"))
		require.Equal(c.t, []string{"error 3"}, c.describe(version, kmsg.ConfigResourceTypeTopic, "none"))
		require.Equal(c.t, []string{"error 17"}, c.describe(version, kmsg.ConfigResourceTypeTopic, "a/b"))

		require.Equal(c.t, []string{"message.max.bytes=77 DYNAMIC_DEFAULT_BROKER_CONFIG message.max.bytes=77 message.max.bytes=1048588"},
			c.describe(version, kmsg.ConfigResourceTypeBroker, ""), "the cluster's default shows what was set")
		require.Equal(c.t, []string{"broker.id=3 STATIC_BROKER_CONFIG broker.id=3", "broker.rack=b STATIC_BROKER_CONFIG broker.rack=b"},
			c.describe(version, kmsg.ConfigResourceTypeBroker, "3", "broker.id", "broker.rack"))
		require.Equal(c.t, []string{"error 42"}, c.describe(version, kmsg.ConfigResourceTypeBroker, "99"))
		require.Equal(c.t, []string{"error 42"}, c.describe(version, kmsg.ConfigResourceTypeBroker, "x"))
		require.Empty(c.t, c.describe(version, kmsg.ConfigResourceTypeBrokerLogger, "1"), "there are no loggers by name")
		require.Equal(c.t, []string{"error 42"}, c.describe(version, kmsg.ConfigResourceTypeBrokerLogger, "9"))

		standIn := strconv.Itoa(assign.FirstStandIn)
		require.Equal(c.t, []string{"error 42"}, c.describe(version, kmsg.ConfigResourceTypeBroker, standIn))
		c.propose(&metadata.CloseSession{Session: 2})
		require.Equal(c.t, []string{"broker.id=" + standIn + " STATIC_BROKER_CONFIG broker.id=" + standIn, "broker.rack=b STATIC_BROKER_CONFIG broker.rack=b"},
			c.describe(version, kmsg.ConfigResourceTypeBroker, standIn, "broker.id", "broker.rack"), "tools ask about every node shown")
		require.Empty(c.t, c.describe(version, kmsg.ConfigResourceTypeBrokerLogger, standIn))
	})
}

// TestDescribeConfigs_ThatToolsRead: Strimzi's Topic Operator ends without auto.create.topics.enable; others show or parse the rest.
func TestDescribeConfigs_ThatToolsRead(t *testing.T) {
	test(t, kmsg.DescribeConfigs, func(c *cluster, version int16) {
		names := []string{
			"advertised.listeners", "authorizer.class.name", "auto.create.topics.enable", "default.replication.factor", "group.share.enable",
			"log.cleaner.enable", "log.retention.hours", "log.retention.ms",
		}
		shown := func(autoCreate bool, node string) (values []string) {
			c.from = &api.Forward{AutoCreateTopics: &autoCreate}
			for _, entry := range c.describe(version, kmsg.ConfigResourceTypeBroker, node, names...) {
				value, _, _ := strings.Cut(entry, " ")
				values = append(values, value)
			}
			return values
		}
		require.Equal(c.t, []string{
			"advertised.listeners=DEFAULT://b:3", "authorizer.class.name=", "auto.create.topics.enable=true", "default.replication.factor=3",
			"group.share.enable=false", "log.cleaner.enable=true", "log.retention.hours=168", "log.retention.ms=604800000",
		}, shown(true, "3"))
		require.Contains(c.t, shown(false, "3"), "auto.create.topics.enable=false")
		c.propose(&metadata.CloseSession{Session: 2})
		require.NotContains(c.t, strings.Join(shown(false, strconv.Itoa(assign.FirstStandIn)), " "), "advertised.listeners")
	})
}

// TestDescribeConfigs_Coordinators: a broker shows what the coordinators run with, and groups' defaults and bounds are that.
func TestDescribeConfigs_Coordinators(t *testing.T) {
	const broker, group = kmsg.ConfigResourceTypeBroker, kmsg.ConfigResourceTypeGroupConfig
	test(t, kmsg.DescribeConfigs, func(c *cluster, version int16) {
		var settings brokerconfig.Settings
		require.NoError(c.t, settings.Set("group.max.size", "200"))
		require.NoError(c.t, settings.Set("group.consumer.session.timeout.ms", "50000"))
		require.NoError(c.t, settings.Set("group.consumer.max.session.timeout.ms", "70000"))
		c.apis = admin.New(admin.Config{Broker: settings}, c.owner)
		require.Equal(c.t, []string{
			"group.consumer.migration.policy=bidirectional DEFAULT_CONFIG group.consumer.migration.policy=bidirectional",
			"group.consumer.session.timeout.ms=50000 STATIC_BROKER_CONFIG group.consumer.session.timeout.ms=50000 group.consumer.session.timeout.ms=45000",
			"group.max.size=200 STATIC_BROKER_CONFIG group.max.size=200 group.max.size=2147483647",
			"transactional.id.expiration.ms=604800000 DEFAULT_CONFIG transactional.id.expiration.ms=604800000",
		}, c.describe(version, broker, "1", "group.max.size", "group.consumer.session.timeout.ms", "group.consumer.migration.policy", "transactional.id.expiration.ms"))
		for _, d := range brokerconfig.All() {
			require.Len(c.t, c.describe(version, broker, "1", d.Name), 1, d.Name)
			require.Empty(c.t, c.describe(version, broker, "", d.Name), d.Name)
		}
		require.Equal(c.t, []string{
			"consumer.heartbeat.interval.ms=5000 DEFAULT_CONFIG group.consumer.heartbeat.interval.ms=5000",
			"consumer.session.timeout.ms=50000 STATIC_BROKER_CONFIG group.consumer.session.timeout.ms=50000 group.consumer.session.timeout.ms=45000",
		}, c.describe(version, group, "g", "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"))
		alter := func(kind kmsg.ConfigResourceType, on, name, value string) int16 {
			in := kmsg.NewPtrIncrementalAlterConfigsRequest()
			in.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
				ResourceType: kind, ResourceName: on,
				Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: name, Value: &value}},
			}}
			return ask[*kmsg.IncrementalAlterConfigsResponse](c, in, 1).Resources[0].ErrorCode
		}
		require.Zero(c.t, alter(group, "g", "consumer.session.timeout.ms", "70000"))
		require.Equal(c.t, kerr.InvalidConfig.Code, alter(group, "g", "consumer.session.timeout.ms", "70001"))
		require.Equal(c.t, kerr.InvalidRequest.Code, alter(broker, "", "group.max.size", "5"), "read only")
	})
}

func TestAlterConfigs_ReplacesAll(t *testing.T) {
	test(t, kmsg.AlterConfigs, func(c *cluster, version int16) {
		c.create("t", 1, "retention.ms", "5", "segment.ms", "6")
		alter := func(validateOnly bool, configs ...kmsg.AlterConfigsRequestResourceConfig) int16 {
			in := kmsg.NewPtrAlterConfigsRequest()
			in.ValidateOnly = validateOnly
			in.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "t", Configs: configs}}
			return ask[*kmsg.AlterConfigsResponse](c, in, version).Resources[0].ErrorCode
		}
		set := kmsg.AlterConfigsRequestResourceConfig{Name: "segment.ms", Value: ptr("7")}
		require.Zero(c.t, alter(true, set))
		require.Len(c.t, c.topic("t").Configs, 2)
		require.Zero(c.t, alter(false, set))
		require.Equal(c.t, map[string]string{"segment.ms": "7"}, c.topic("t").Configs)
		require.Equal(c.t, kerr.InvalidRequest.Code, alter(false, kmsg.AlterConfigsRequestResourceConfig{Name: "segment.ms"}))
		require.Equal(c.t, kerr.InvalidRequest.Code, alter(false, set, set))
		require.Equal(c.t, kerr.InvalidConfig.Code, alter(false, kmsg.AlterConfigsRequestResourceConfig{Name: "nope", Value: ptr("1")}))
		require.Equal(c.t, map[string]string{"segment.ms": "7"}, c.topic("t").Configs)
	})
}

func TestIncrementalAlterConfigs(t *testing.T) {
	const (
		set, del, add, sub = kmsg.IncrementalAlterConfigOpSet, kmsg.IncrementalAlterConfigOpDelete,
			kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract
		topic, broker  = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
		group, metrics = kmsg.ConfigResourceTypeGroupConfig, kmsg.ConfigResourceTypeClientMetrics
	)
	steps := []struct {
		kind    kmsg.ConfigResourceType
		on      string
		op      kmsg.IncrementalAlterConfigOp
		name    string
		value   *string
		err     *kerr.Error
		message string
		after   string // of the config; "" is not set
	}{
		{topic, "t", set, "retention.ms", ptr("5"), nil, "", "5"},
		{topic, "t", set, "retention.ms", ptr("soon"), kerr.InvalidConfig, "Invalid value soon for configuration retention.ms: Not a number of type LONG", "5"},
		{topic, "t", del, "retention.ms", nil, nil, "", ""},
		{topic, "t", del, "no.such", nil, nil, "", ""},
		{topic, "t", add, "cleanup.policy", ptr("compact"), nil, "", "delete,compact"},
		{topic, "t", add, "cleanup.policy", ptr("compact"), nil, "", "delete,compact"},
		{topic, "t", sub, "cleanup.policy", ptr("delete"), nil, "", "compact"},
		{topic, "t", add, "retention.ms", ptr("5"), kerr.InvalidConfig, "Can't APPEND to key retention.ms because its type is not LIST.", ""},
		{topic, "t", set, "no.such", ptr("5"), kerr.InvalidConfig, "Unknown topic config name: no.such", ""},
		{topic, "t", set, "retention.ms", nil, kerr.InvalidRequest, "Null value not supported for : retention.ms", ""},
		{topic, "t", 9, "retention.ms", ptr("1"), kerr.InvalidRequest, "Unknown operations type 9", ""},
		{topic, "t", set, "retention.ms", ptr(strings.Repeat("1", 40_000)), kerr.InvalidConfig, "", ""},
		{topic, "none", set, "retention.ms", ptr("1"), kerr.UnknownTopicOrPartition, "The topic 'none' does not exist.", ""},
		{broker, "", set, "log.retention.ms", ptr("9"), nil, "", "9"},
		{broker, "", set, "log.retention.ms", ptr("-9"), kerr.InvalidRequest, "Invalid value -9 for configuration log.retention.ms: Value must be at least -1", "9"},
		{broker, "", set, "num.partitions", ptr("9"), kerr.InvalidRequest, "Cannot update these configs dynamically: [num.partitions]", ""},
		{broker, "", set, "no.such", ptr("9"), kerr.InvalidConfig, "Unknown broker config name: no.such", ""},
		{broker, "1", set, "log.retention.ms", ptr("9"), kerr.InvalidRequest, "", ""},
		{kmsg.ConfigResourceTypeBrokerLogger, "1", set, "x", ptr("9"), kerr.InvalidConfig, "Logger x does not exist!", ""},
		{kmsg.ConfigResourceTypeBrokerLogger, "9", set, "x", ptr("9"), kerr.InvalidRequest, "", ""},
		{group, "g", set, "consumer.session.timeout.ms", ptr("50000"), nil, "", "50000"},
		{group, "g", set, "consumer.session.timeout.ms", ptr("1"), kerr.InvalidConfig, "", "50000"},
		{group, "g", add, "consumer.session.timeout.ms", ptr("1"), kerr.InvalidConfig, "Can't APPEND to key consumer.session.timeout.ms because its type is not LIST.", "50000"},
		{group, "", set, "consumer.session.timeout.ms", ptr("50000"), kerr.InvalidRequest, "Default group resources are not allowed.", ""},
		{group, "g", del, "consumer.session.timeout.ms", nil, nil, "", ""},
		{metrics, "m", set, "metrics", ptr("*"), nil, "", "*"},
		{metrics, "m", set, "interval.ms", ptr("1"), kerr.InvalidRequest, "", ""},
		{metrics, "m", set, "match", ptr("bogus=1"), kerr.InvalidConfig, "Illegal client matching pattern: bogus=1", ""},
		{metrics, "", set, "metrics", ptr("*"), kerr.InvalidRequest, "Subscription name can't be empty", ""},
	}
	test(t, kmsg.IncrementalAlterConfigs, func(c *cluster, version int16) {
		c.create("t", 1)
		for _, s := range steps {
			if version == 0 && s.value != nil && len(*s.value) > 1<<15-1 {
				continue // cannot be encoded
			}
			in := kmsg.NewPtrIncrementalAlterConfigsRequest()
			in.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{
				ResourceType: s.kind, ResourceName: s.on,
				Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: s.name, Op: s.op, Value: s.value}},
			}}
			got := ask[*kmsg.IncrementalAlterConfigsResponse](c, in, version).Resources[0]
			if s.err == nil {
				require.Zero(c.t, got.ErrorCode, "%+v: %v", s, got.ErrorMessage)
			} else {
				require.Equal(c.t, s.err.Code, got.ErrorCode, "%+v", s)
				if s.message != "" {
					require.Equal(c.t, s.message, *got.ErrorMessage)
				}
			}
			var after string
			_, err := c.owner.Read(func(state *metadata.State) {
				after = state.Configs(metadata.ConfigTopic, "t")[s.name]
				if s.kind != topic {
					after = state.Configs(metadata.ConfigResource(s.kind), s.on)[s.name]
				}
			})
			require.NoError(c.t, err)
			require.Equal(c.t, s.after, after, "%+v", s)
		}
		r := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: topic, ResourceName: "t"}
		in := kmsg.NewPtrIncrementalAlterConfigsRequest()
		in.Resources = []kmsg.IncrementalAlterConfigsRequestResource{r, r}
		out := ask[*kmsg.IncrementalAlterConfigsResponse](c, in, version)
		require.Equal(c.t, kerr.InvalidRequest.Code, out.Resources[0].ErrorCode)
		require.Equal(c.t, kerr.InvalidRequest.Code, out.Resources[1].ErrorCode)
	})
}
