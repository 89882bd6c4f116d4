// Package brokerconfig knows the broker configs of Kafka's group and transaction coordinators: names, defaults, bounds
// and Kafka's complaints (GroupCoordinatorConfig, TransactionStateManagerConfig, TransactionLogConfig). The control plane
// is started with them, by flags of the same names, and shows them as every broker's.
package brokerconfig

import (
	"math"
	"slices"
	"strings"

	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/kafkaproto"
)

// Names of configs that code refers to.
const (
	ConsumerAssignmentIntervalMs       = "group.consumer.assignment.interval.ms"
	ConsumerAssignors                  = "group.consumer.assignors"
	ConsumerHeartbeatIntervalMs        = "group.consumer.heartbeat.interval.ms"
	ConsumerMaxHeartbeatMs             = "group.consumer.max.heartbeat.interval.ms"
	ConsumerMaxSessionMs               = "group.consumer.max.session.timeout.ms"
	ConsumerMaxSize                    = "group.consumer.max.size"
	ConsumerMigrationPolicy            = "group.consumer.migration.policy"
	ConsumerMinHeartbeatMs             = "group.consumer.min.heartbeat.interval.ms"
	ConsumerMinSessionMs               = "group.consumer.min.session.timeout.ms"
	ConsumerSessionTimeoutMs           = "group.consumer.session.timeout.ms"
	InitialRebalanceDelayMs            = "group.initial.rebalance.delay.ms"
	InterBrokerProtocolVersion         = "inter.broker.protocol.version"
	MaxSessionTimeoutMs                = "group.max.session.timeout.ms"
	MaxSize                            = "group.max.size"
	MinSessionTimeoutMs                = "group.min.session.timeout.ms"
	OffsetMetadataMaxBytes             = "offset.metadata.max.bytes"
	OffsetsRetentionCheckMs            = "offsets.retention.check.interval.ms"
	OffsetsRetentionMinutes            = "offsets.retention.minutes"
	ProducerIDExpirationMs             = "producer.id.expiration.ms"
	TransactionMaxTimeoutMs            = "transaction.max.timeout.ms"
	TransactionalIDExpirationMs        = "transactional.id.expiration.ms"
	ConsumerMinAssignmentMs            = "group.consumer.min.assignment.interval.ms"
	ConsumerMaxAssignmentMs            = "group.consumer.max.assignment.interval.ms"
	unbounded                    int64 = math.MaxInt32
)

// The migration policies of consumer groups.
const (
	MigrationBidirectional = "bidirectional"
	MigrationDisabled      = "disabled"
	MigrationDowngrade     = "downgrade"
	MigrationUpgrade       = "upgrade"
)

// Assignors are the partition assignors that there are, the default one first.
var Assignors = []string{"uniform", "range"}

// Def is one broker config.
type Def struct {
	Name    string
	Type    topicconfig.Type
	Default string // canonical text, Kafka's
	// Fixed configs are shown and cannot be set: they are part of the state machine.
	Fixed bool
	Doc   string // a sentence or two

	least int64    // smallest value of an Int or Long
	one   []string // values that a String can have, in lower case; elements that a List can have
}

// All gives every config in the order of names. The slice is shared: do not change it.
func All() []Def { return table }

// Lookup finds a config by name.
func Lookup(name string) (*Def, bool) {
	i, ok := slices.BinarySearchFunc(table, name, func(d Def, name string) int { return strings.Compare(d.Name, name) })
	if !ok {
		return nil, false
	}
	return &table[i], true
}

// table is in the order of names. The longest times are Kafka's: what fits an INT in milliseconds.
var table = []Def{
	{
		Name: ConsumerAssignmentIntervalMs, Type: topicconfig.Int, Default: "1000",
		Doc: "Least time between two target assignments of a consumer group, in milliseconds (KIP-1263). Default of the group config consumer.assignment.interval.ms.",
	},
	{
		Name: ConsumerAssignors, Type: topicconfig.List, Default: strings.Join(Assignors, ","), one: Assignors,
		Doc: "Assignors that members of consumer groups can ask for; the first is taken for those that ask for none.",
	},
	{
		Name: ConsumerHeartbeatIntervalMs, Type: topicconfig.Int, Default: "5000", least: 1,
		Doc: "Heartbeat interval given to the members of consumer groups, in milliseconds. Default of the group config consumer.heartbeat.interval.ms.",
	},
	{
		Name: ConsumerMaxAssignmentMs, Type: topicconfig.Int, Default: "15000",
		Doc: "Largest value of the group config consumer.assignment.interval.ms, in milliseconds.",
	},
	{
		Name: ConsumerMaxHeartbeatMs, Type: topicconfig.Int, Default: "15000", least: 1,
		Doc: "Largest value of the group config consumer.heartbeat.interval.ms, in milliseconds.",
	},
	{
		Name: ConsumerMaxSessionMs, Type: topicconfig.Int, Default: "60000", least: 1,
		Doc: "Largest value of the group config consumer.session.timeout.ms, in milliseconds.",
	},
	{
		Name: ConsumerMaxSize, Type: topicconfig.Int, Default: long(unbounded), least: 1,
		Doc: "Members that a consumer group can have.",
	},
	{
		Name: ConsumerMigrationPolicy, Type: topicconfig.String, Default: MigrationBidirectional,
		one: []string{MigrationBidirectional, MigrationDisabled, MigrationDowngrade, MigrationUpgrade},
		Doc: "Which groups change their protocol while they have members: upgrade, classic ones to consumer groups; downgrade, the other way; bidirectional, both; disabled, none.",
	},
	{
		Name: ConsumerMinAssignmentMs, Type: topicconfig.Int, Default: "0",
		Doc: "Smallest value of the group config consumer.assignment.interval.ms, in milliseconds.",
	},
	{
		Name: ConsumerMinHeartbeatMs, Type: topicconfig.Int, Default: "5000", least: 1,
		Doc: "Smallest value of the group config consumer.heartbeat.interval.ms, in milliseconds.",
	},
	{
		Name: ConsumerMinSessionMs, Type: topicconfig.Int, Default: "45000", least: 1,
		Doc: "Smallest value of the group config consumer.session.timeout.ms, in milliseconds.",
	},
	{
		Name: ConsumerSessionTimeoutMs, Type: topicconfig.Int, Default: "45000", least: 1,
		Doc: "Time without a heartbeat after which a member of a consumer group is gone, in milliseconds. Default of the group config consumer.session.timeout.ms.",
	},
	{
		Name: InitialRebalanceDelayMs, Type: topicconfig.Int, Default: "3000",
		Doc: "How long the first rebalance of an empty classic group waits for more members, in milliseconds.",
	},
	{
		Name: MaxSessionTimeoutMs, Type: topicconfig.Int, Default: "1800000", least: 1,
		Doc: "Longest session time-out that a member of a classic group can ask for, in milliseconds.",
	},
	{
		Name: MaxSize, Type: topicconfig.Int, Default: long(unbounded), least: 1,
		Doc: "Members that a classic group can have.",
	},
	{
		Name: MinSessionTimeoutMs, Type: topicconfig.Int, Default: "6000", least: 1,
		Doc: "Shortest session time-out that a member of a classic group can ask for, in milliseconds.",
	},
	{
		Name: InterBrokerProtocolVersion, Type: topicconfig.String, Default: kafkaproto.MetadataVersionName, Fixed: true,
		Doc: "Name of the level of metadata.version. Apache Kafka removed the config, but tools that do not know the level read the version here.",
	},
	{
		Name: OffsetMetadataMaxBytes, Type: topicconfig.Int, Default: "4096", least: 1,
		Doc: "Longest metadata of a committed offset, in characters of UTF-16, as Kafka counts them.",
	},
	{
		Name: OffsetsRetentionCheckMs, Type: topicconfig.Long, Default: "600000", least: 1,
		Doc: "How often expired offsets are looked for, in milliseconds.",
	},
	{
		Name: OffsetsRetentionMinutes, Type: topicconfig.Int, Default: "10080", least: 1,
		Doc: "How long committed offsets are kept after their group became empty or, without members, after the commit, in minutes.",
	},
	{
		Name: ProducerIDExpirationMs, Type: topicconfig.Int, Default: "86400000", Fixed: true,
		Doc: "How long the last batches of an idle producer are remembered, in milliseconds. Its next sequence is remembered for longer.",
	},
	{
		Name: TransactionMaxTimeoutMs, Type: topicconfig.Int, Default: "900000", least: 1,
		Doc: "Longest time-out that a transactional producer can ask for, in milliseconds.",
	},
	{
		Name: TransactionalIDExpirationMs, Type: topicconfig.Int, Default: "604800000", Fixed: true,
		Doc: "How long an unused transactional id is remembered, in milliseconds.",
	},
}
