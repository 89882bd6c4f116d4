package topicconfig

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Effect says what setting a config does here.
type Effect uint8

const (
	// None: accepted, stored and shown, without effect: there is nothing here that it could act on.
	None Effect = iota
	// Active: acts, at once or on the next background work.
	Active
)

// String says the effect in a word or two, for documentation.
func (e Effect) String() string { return [...]string{"no effect", "active"}[e] }

// Names of configs that code refers to.
const (
	CleanupPolicy            = "cleanup.policy"
	CompressionType          = "compression.type"
	CompressionGzipLevel     = "compression.gzip.level"
	CompressionLZ4Level      = "compression.lz4.level"
	CompressionZstdLevel     = "compression.zstd.level"
	DeleteRetentionMs        = "delete.retention.ms"
	MaxCompactionLagMs       = "max.compaction.lag.ms"
	FreshetLatency           = "freshet.latency"
	MaxDecompressedBytes     = "max.decompressed.message.bytes"
	MaxMessageBytes          = "max.message.bytes"
	MessageTimestampAfterMs  = "message.timestamp.after.max.ms"
	MessageTimestampBeforeMs = "message.timestamp.before.max.ms"
	MessageTimestampType     = "message.timestamp.type"
	MinCleanableDirtyRatio   = "min.cleanable.dirty.ratio"
	MinCompactionLagMs       = "min.compaction.lag.ms"
	RetentionBytes           = "retention.bytes"
	RetentionMs              = "retention.ms"
)

// Def is one topic config.
type Def struct {
	Name    string
	Type    Type
	Default string // canonical text
	// Broker is the broker config that holds the cluster's default of this one, "" if there is none.
	Broker string
	// BrokerUnset: the broker config has no default of its own (Kafka derives it from one in another unit), so
	// descriptions show no DEFAULT_CONFIG synonym.
	BrokerUnset bool
	Effect      Effect
	Doc         string // one or two sentences
	rule        rule
}

// Valid describes the accepted values, "" where every value of the type is.
func (d *Def) Valid() string { return d.rule.valid }

// Normalize gives the canonical text of a value, or an error with Kafka's message (errors.Is ErrInvalid).
func (d *Def) Normalize(value string) (string, error) { return d.normalizeAs(d.Name, value) }

// NormalizeBroker is Normalize for the broker config that holds the default: errors carry its name.
func (d *Def) NormalizeBroker(value string) (string, error) { return d.normalizeAs(d.Broker, value) }

func (d *Def) normalizeAs(name, value string) (string, error) {
	text, err := d.Type.Parse(name, value)
	if err != nil {
		return "", err
	}
	if d.rule.distinct {
		text = strings.Join(distinct(SplitList(text)), ",")
	}
	return text, d.rule.check(name, text)
}

// All gives every topic config in the order of names. The slice is shared: do not change it.
func All() []Def { return table }

// Lookup finds a topic config by name.
func Lookup(name string) (*Def, bool) {
	i, ok := slices.BinarySearchFunc(table, name, func(d Def, name string) int { return strings.Compare(d.Name, name) })
	if !ok {
		return nil, false
	}
	return &table[i], true
}

// LookupBroker finds the topic config whose default the named broker config holds.
func LookupBroker(name string) (*Def, bool) {
	d, ok := byBroker[name]
	return d, ok
}

// maxArray is the length of Java's longest array, Kafka's default of max.decompressed.message.bytes.
const maxArray = math.MaxInt32 - 8

const (
	day     = 24 * 60 * 60 * 1000 // ms
	maxLong = math.MaxInt64
)

func long(n int64) string { return strconv.FormatInt(n, 10) }

// table is in the order of names.
var table = []Def{
	{
		Name: CleanupPolicy, Type: List, Default: "delete", Broker: "log.cleanup.policy", Effect: Active,
		rule: listOf("compact", "delete"),
		Doc:  "What happens to old records: delete drops them by age and size, compact keeps the latest per key, both do both, an empty list keeps everything.",
	},
	{
		Name: CompressionGzipLevel, Type: Int, Default: "-1", Broker: CompressionGzipLevel, Effect: Active, rule: gzipLevel,
		Doc: "Compression level where compression.type is gzip.",
	},
	{
		Name: CompressionLZ4Level, Type: Int, Default: "9", Broker: CompressionLZ4Level, Effect: Active, rule: between(1, 17),
		Doc: "Compression level where compression.type is lz4.",
	},
	{
		Name: CompressionType, Type: String, Default: "producer", Broker: CompressionType, Effect: Active,
		rule: oneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
		Doc:  "Codec of stored batches. producer keeps what producers sent; any other value makes the agent compress again.",
	},
	{
		Name: CompressionZstdLevel, Type: Int, Default: "3", Broker: CompressionZstdLevel, Effect: Active, rule: between(-131072, 22),
		Doc: "Compression level where compression.type is zstd.",
	},
	{
		Name: DeleteRetentionMs, Type: Long, Default: long(day), Broker: "log.cleaner.delete.retention.ms", Effect: Active, rule: atLeast(0),
		Doc: "How long tombstones of compacted topics, and markers of transactions without records left, are kept from when they are first cleaned, in milliseconds.",
	},
	{
		Name: "errors.deadletterqueue.group.enable", Type: Boolean, Default: "false", Effect: None, rule: only("false", "there are no share groups"),
		Doc: "Whether share groups may write the records that they give up to this topic.",
	},
	{
		Name: "file.delete.delay.ms", Type: Long, Default: "60000", Broker: "log.segment.delete.delay.ms", Effect: None, rule: atLeast(0),
		Doc: "Delay before a deleted segment's file goes. Objects have a grace period of their own.",
	},
	{
		Name: "flush.messages", Type: Long, Default: long(maxLong), Broker: "log.flush.interval.messages", Effect: None, rule: atLeast(1),
		Doc: "Records between fsyncs. Every acknowledged record is in the object store already.",
	},
	{
		Name: "flush.ms", Type: Long, Default: long(maxLong), Broker: "log.flush.interval.ms", BrokerUnset: true, Effect: None, rule: atLeast(0),
		Doc: "Time between fsyncs. Every acknowledged record is in the object store already.",
	},
	{
		Name: "follower.replication.throttled.replicas", Type: List, Default: "", Effect: None, rule: throttledReplicas,
		Doc: "Replicas throttled on the follower side. There is no replication between agents.",
	},
	{
		Name: FreshetLatency, Type: String, Default: "standard", Broker: FreshetLatency, Effect: Active,
		rule: oneOf("fast", "standard"),
		Doc: "How long records wait for company before they are stored, which costs a request. standard: for a token of the zone's PUT budget, " +
			"at most --flush-interval; fast: hardly, as long as --fast-put-budget lasts.",
	},
	{
		Name: "index.interval.bytes", Type: Int, Default: "4096", Broker: "log.index.interval.bytes", Effect: None, rule: atLeast(0),
		Doc: "Bytes between index entries. The metadata's index has an entry per extent.",
	},
	{
		Name: "leader.replication.throttled.replicas", Type: List, Default: "", Effect: None, rule: throttledReplicas,
		Doc: "Replicas throttled on the leader side. There is no replication between agents.",
	},
	{
		Name: "local.retention.bytes", Type: Long, Default: "-2", Broker: "log.local.retention.bytes", Effect: None, rule: atLeast(-2),
		Doc: "Bytes kept locally with tiered storage. Agents keep no records; everything is in the object store.",
	},
	{
		Name: "local.retention.ms", Type: Long, Default: "-2", Broker: "log.local.retention.ms", Effect: None, rule: atLeast(-2),
		Doc: "Time kept locally with tiered storage. Agents keep no records; everything is in the object store.",
	},
	{
		Name: MaxCompactionLagMs, Type: Long, Default: long(maxLong), Broker: "log.cleaner.max.compaction.lag.ms", Effect: Active, rule: atLeast(1),
		Doc: "Longest time a record of a compacted topic stays uncompacted, in milliseconds.",
	},
	{
		Name: MaxDecompressedBytes, Type: Int, Default: long(maxArray), Broker: MaxDecompressedBytes, Effect: Active, rule: between(1, maxArray),
		Doc: "Largest record of a compressed batch, in bytes after decompression. With a value below the default, agents open each compressed batch " +
			"and refuse larger records with INVALID_RECORD.",
	},
	{
		Name: MaxMessageBytes, Type: Int, Default: "1048588", Broker: "message.max.bytes", Effect: Active, rule: atLeast(0),
		Doc: "Largest record batch taken, in bytes, as sent (compressed).",
	},
	{
		Name: MessageTimestampAfterMs, Type: Long, Default: "3600000", Broker: "log.message.timestamp.after.max.ms", Effect: Active, rule: atLeast(0),
		Doc: "How far record timestamps may lie ahead of the agent's clock, in milliseconds, with CreateTime.",
	},
	{
		Name: MessageTimestampBeforeMs, Type: Long, Default: long(maxLong), Broker: "log.message.timestamp.before.max.ms", Effect: Active, rule: atLeast(0),
		Doc: "How far record timestamps may lie behind the agent's clock, in milliseconds, with CreateTime.",
	},
	{
		Name: MessageTimestampType, Type: String, Default: "CreateTime", Broker: "log.message.timestamp.type", Effect: Active,
		rule: oneOf("CreateTime", "LogAppendTime"),
		Doc:  "Whose clock records carry: the producer's (CreateTime) or the agent's when it took them (LogAppendTime).",
	},
	{
		Name: MinCleanableDirtyRatio, Type: Double, Default: "0.5", Broker: "log.cleaner.min.cleanable.ratio", Effect: Active, rule: between(0, 1),
		Doc: "Share of uncompacted bytes at which a compacted partition is compacted again.",
	},
	{
		Name: MinCompactionLagMs, Type: Long, Default: "0", Broker: "log.cleaner.min.compaction.lag.ms", Effect: Active, rule: atLeast(0),
		Doc: "Shortest time a record of a compacted topic stays uncompacted, in milliseconds.",
	},
	{
		Name: "min.insync.replicas", Type: Int, Default: "1", Broker: "min.insync.replicas", Effect: None, rule: atLeast(1),
		Doc: "Replicas that must have a record before it is acknowledged. The object store's durability stands for all of them.",
	},
	{
		Name: "preallocate", Type: Boolean, Default: "false", Broker: "log.preallocate", Effect: None, rule: anyValue,
		Doc: "Preallocation of segment files. There are none.",
	},
	{
		Name: "remote.copy.lag.bytes", Type: Long, Default: "-1", Broker: "log.remote.copy.lag.bytes", Effect: None, rule: only("-1", "segments are not copied to remote storage"),
		Doc: "Bytes behind the newest record at which a segment is tiered. Everything is in the object store from the start.",
	},
	{
		Name: "remote.copy.lag.ms", Type: Long, Default: "0", Broker: "log.remote.copy.lag.ms", Effect: None, rule: only("0", "segments are not copied to remote storage"),
		Doc: "Age at which a segment is tiered. Everything is in the object store from the start.",
	},
	{
		Name: "remote.log.copy.disable", Type: Boolean, Default: "false", Effect: None, rule: only("false", "segments are not copied to remote storage"),
		Doc: "Stops tiering. Everything is in the object store from the start.",
	},
	{
		Name: "remote.log.delete.on.disable", Type: Boolean, Default: "false", Effect: None, rule: only("false", "segments are not copied to remote storage"),
		Doc: "Deletes tiered data when tiering is switched off. Everything is in the object store from the start.",
	},
	{
		Name: "remote.storage.enable", Type: Boolean, Default: "false", Effect: None, rule: noTiers,
		Doc: "Switches tiering on. Everything is in the object store from the start.",
	},
	{
		Name: RetentionBytes, Type: Long, Default: "-1", Broker: "log.retention.bytes", Effect: Active, rule: anyValue,
		Doc: "Bytes a partition may hold before its oldest records go with the delete policy; -1 is no limit.",
	},
	{
		Name: RetentionMs, Type: Long, Default: long(7 * day), Broker: "log.retention.ms", BrokerUnset: true, Effect: Active, rule: atLeast(-1),
		Doc: "Time records are kept with the delete policy, in milliseconds; -1 is no limit.",
	},
	{
		Name: "segment.bytes", Type: Int, Default: "1073741824", Broker: "log.segment.bytes", Effect: None, rule: atLeast(1 << 20),
		Doc: "Size of segment files. Records lie in bundles, shared by partitions and sized by the agent.",
	},
	{
		Name: "segment.index.bytes", Type: Int, Default: "10485760", Broker: "log.index.size.max.bytes", Effect: None, rule: atLeast(4),
		Doc: "Size of index files. There are none.",
	},
	{
		Name: "segment.jitter.ms", Type: Long, Default: "0", Broker: "log.roll.jitter.ms", BrokerUnset: true, Effect: None, rule: atLeast(0),
		Doc: "Jitter of the time after which segments roll. There are none.",
	},
	{
		Name: "segment.ms", Type: Long, Default: long(7 * day), Broker: "log.roll.ms", BrokerUnset: true, Effect: None, rule: atLeast(1),
		Doc: "Time after which segments roll. There are none.",
	},
	{
		Name: "unclean.leader.election.enable", Type: Boolean, Default: "false", Broker: "unclean.leader.election.enable", Effect: None, rule: anyValue,
		Doc: "Whether replicas that lag may lead. Any agent serves any partition from the same object store.",
	},
}

var byBroker = indexByBroker()

func indexByBroker() map[string]*Def {
	index := make(map[string]*Def, len(table))
	for i := range table {
		if table[i].Broker != "" {
			index[table[i].Broker] = &table[i]
		}
	}
	return index
}
