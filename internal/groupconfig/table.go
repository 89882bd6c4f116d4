package groupconfig

import "github.com/freshet-io/freshet/internal/topicconfig"

// Bounds that Kafka's brokers set by default.
const (
	minHeartbeatMs, maxHeartbeatMs = 5_000, 15_000
	minSessionMs, maxSessionMs     = 45_000, 60_000
	maxAssignmentMs                = 15_000
)

// table is in the order of names.
var table = []Def{
	{
		Name: ConsumerAssignmentIntervalMs, Type: topicconfig.Int, Default: "1000", Broker: "group.consumer.assignment.interval.ms",
		high: maxAssignmentMs, Doc: "Least time between two target assignments of a consumer group, in milliseconds.",
	},
	{
		Name: ConsumerHeartbeatIntervalMs, Type: topicconfig.Int, Default: "5000", Broker: "group.consumer.heartbeat.interval.ms",
		least: 1, low: minHeartbeatMs, high: maxHeartbeatMs, Doc: "Heartbeat interval given to the members of a consumer group, in milliseconds.",
	},
	{
		Name: ConsumerSessionTimeoutMs, Type: topicconfig.Int, Default: "45000", Broker: "group.consumer.session.timeout.ms",
		least: 1, low: minSessionMs, high: maxSessionMs, Doc: "Time without a heartbeat after which a member of a consumer group is gone, in milliseconds.",
	},
	{
		Name: "errors.deadletterqueue.copy.record.enable", Type: topicconfig.Boolean, Default: "false", fixed: true,
		Doc: "Whether a share group copies the records that it gives up to its dead-letter topic.",
	},
	{
		Name: "errors.deadletterqueue.topic.name", Type: topicconfig.String, fixed: true,
		Doc: "Topic for the records that a share group gives up. There are no share groups.",
	},
	{
		Name: "share.assignment.interval.ms", Type: topicconfig.Int, Default: "1000", Broker: "group.share.assignment.interval.ms",
		high: maxAssignmentMs, Doc: "Least time between two assignments of a share group, in milliseconds.",
	},
	{
		Name: "share.auto.offset.reset", Type: topicconfig.String, Default: "latest", one: []string{"earliest", "latest"}, duration: true,
		refusal: "Invalid value %[1]s for configuration share.auto.offset.reset: Invalid value `%[1]s` for configuration share.auto.offset.reset. " +
			"The value must be either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'.",
		Doc: "Where a share group begins: earliest, latest, or by_duration: and an ISO 8601 duration before now.",
	},
	{
		Name: "share.delivery.count.limit", Type: topicconfig.Int, Default: "5", Broker: "group.share.delivery.count.limit",
		least: 2, low: 2, high: 10, Doc: "How often a record is delivered to a share group at most.",
	},
	{
		Name: "share.heartbeat.interval.ms", Type: topicconfig.Int, Default: "5000", Broker: "group.share.heartbeat.interval.ms",
		least: 1, low: minHeartbeatMs, high: maxHeartbeatMs, Doc: "Heartbeat interval given to the members of a share group, in milliseconds.",
	},
	{
		Name: "share.isolation.level", Type: topicconfig.String, Default: "read_uncommitted", one: []string{"read_committed", "read_uncommitted"},
		Doc: "Whether a share group gets records of open and aborted transactions.",
	},
	{
		Name: "share.partition.max.record.locks", Type: topicconfig.Int, Default: "2000", Broker: "group.share.partition.max.record.locks",
		least: 100, low: 100, high: 4_000, Doc: "Records of a partition that a share group may have acquired at once.",
	},
	{
		Name: "share.record.lock.duration.ms", Type: topicconfig.Int, Default: "30000", Broker: "group.share.record.lock.duration.ms",
		least: 1_000, low: 15_000, high: 60_000, Doc: "How long an acquired record stays locked in a share group, in milliseconds.",
	},
	{
		Name: "share.renew.acknowledge.enable", Type: topicconfig.Boolean, Default: "true",
		Doc: "Whether members of a share group may prolong their locks.",
	},
	{
		Name: "share.session.timeout.ms", Type: topicconfig.Int, Default: "45000", Broker: "group.share.session.timeout.ms",
		least: 1, low: minSessionMs, high: maxSessionMs, Doc: "Time without a heartbeat after which a member of a share group is gone, in milliseconds.",
	},
	{
		Name: "streams.assignment.interval.ms", Type: topicconfig.Int, Default: "1000", Broker: "group.streams.assignment.interval.ms",
		high: maxAssignmentMs, Doc: "Least time between two assignments of a streams group, in milliseconds.",
	},
	{
		Name: "streams.assignor.name", Type: topicconfig.String, Default: "sticky", Broker: "group.streams.assignors", one: []string{"sticky"},
		refusal: "streams.assignor.name '%s' is not a registered task assignor. Registered assignors are: [sticky].",
		Doc:     "Task assignor of a streams group.",
	},
	{
		Name: "streams.heartbeat.interval.ms", Type: topicconfig.Int, Default: "5000", Broker: "group.streams.heartbeat.interval.ms",
		least: 1, low: minHeartbeatMs, high: maxHeartbeatMs, Doc: "Heartbeat interval given to the members of a streams group, in milliseconds.",
	},
	{
		Name: "streams.initial.rebalance.delay.ms", Type: topicconfig.Int, Default: "3000", Broker: "group.streams.initial.rebalance.delay.ms",
		Doc: "How long a new streams group waits for more members, in milliseconds.",
	},
	{
		Name: "streams.num.standby.replicas", Type: topicconfig.Int, Default: "0", Broker: "group.streams.num.standby.replicas",
		low: noLow, high: 2, Doc: "Standby replicas of each task of a streams group.",
	},
	{
		Name: "streams.rack.aware.assignment.tags", Type: topicconfig.List, Broker: "group.streams.rack.aware.assignment.tags",
		Doc: "Client tags over which a streams group spreads standby replicas.",
	},
	{
		Name: "streams.session.timeout.ms", Type: topicconfig.Int, Default: "45000", Broker: "group.streams.session.timeout.ms",
		least: 1, low: minSessionMs, high: maxSessionMs, Doc: "Time without a heartbeat after which a member of a streams group is gone, in milliseconds.",
	},
}
