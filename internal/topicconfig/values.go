package topicconfig

import (
	"maps"
	"slices"
	"strconv"
	"time"
)

// Validate checks a topic's explicit configs: names, values, and the rules between them, against the cluster's
// defaults in broker (broker config names; may be nil). Errors carry Kafka's messages (errors.Is ErrInvalid).
func Validate(topic, broker map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(topic)) {
		d, ok := Lookup(name)
		if !ok {
			return invalidf("Unknown topic config name: %s", name)
		}
		if _, err := d.Normalize(topic[name]); err != nil {
			return err
		}
	}
	low, high := integer(topic, broker, MinCompactionLagMs), integer(topic, broker, MaxCompactionLagMs)
	if low > high {
		return invalidf("conflict topic config setting %s (%d) > %s (%d)", MinCompactionLagMs, low, MaxCompactionLagMs, high)
	}
	return nil
}

// Effective gives the value a topic config has: set on the topic, else the cluster's default, else Kafka's. The name
// must be one of the table.
func Effective(topic, broker map[string]string, name string) string {
	d, ok := Lookup(name)
	if !ok {
		panic("topicconfig: unknown name " + name)
	}
	if has(topic, name) {
		if text, err := d.Normalize(topic[name]); err == nil {
			return text
		}
	}
	if d.Broker != "" && has(broker, d.Broker) {
		if text, err := d.NormalizeBroker(broker[d.Broker]); err == nil {
			return text
		}
	}
	return d.Default
}

func has(configs map[string]string, name string) bool {
	_, ok := configs[name]
	return ok
}

func integer(topic, broker map[string]string, name string) int64 {
	n, _ := strconv.ParseInt(Effective(topic, broker, name), 10, 64)
	return n
}

// TimestampType says whose clock a topic's records carry, numbered as in record batch attributes.
type TimestampType int8

// The timestamp types of record batches.
const (
	CreateTime    TimestampType = 0
	LogAppendTime TimestampType = 1
)

// Values are a topic's effective configs that have meaning here, parsed once. Durations are capped at about 292
// years, so that Kafka's "no limit" of 2^63-1 ms stays beyond every difference of real timestamps.
type Values struct {
	MaxMessageBytes    int32
	MaxDecompressed    int32 // bytes of one record of a compressed batch; 0 is no limit
	TimestampType      TimestampType
	TimestampBeforeMax int64         // ms; math.MaxInt64 is no limit
	TimestampAfterMax  int64         // ms
	CompressionType    string        // "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"
	CompressionLevel   int           // of CompressionType; 0 where it has none
	Compact            bool          // cleanup.policy has compact
	Delete             bool          // cleanup.policy has delete
	Retention          time.Duration // < 0 is no limit
	RetentionBytes     int64         // < 0 is no limit
	DeleteRetention    time.Duration
	MinCompactionLag   time.Duration
	MaxCompactionLag   time.Duration
	MinDirtyRatio      float64
	Latency            string // "standard" or "fast"
}

// Resolve parses the effective values of a topic from its explicit configs and the cluster's defaults (broker config
// names); either may be nil. Values that do not parse, which validation keeps out, take the next default.
func Resolve(topic, broker map[string]string) Values {
	number := func(name string) int64 { return integer(topic, broker, name) }
	v := Values{
		MaxMessageBytes:    int32(number(MaxMessageBytes)),
		TimestampBeforeMax: number(MessageTimestampBeforeMs),
		TimestampAfterMax:  number(MessageTimestampAfterMs),
		CompressionType:    Effective(topic, broker, CompressionType),
		Latency:            Effective(topic, broker, FreshetLatency),
		Retention:          milliseconds(number(RetentionMs)),
		RetentionBytes:     number(RetentionBytes),
		DeleteRetention:    milliseconds(number(DeleteRetentionMs)),
		MinCompactionLag:   milliseconds(number(MinCompactionLagMs)),
		MaxCompactionLag:   milliseconds(number(MaxCompactionLagMs)),
	}
	if n := number(MaxDecompressedBytes); n < maxArray {
		v.MaxDecompressed = int32(n)
	}
	if Effective(topic, broker, MessageTimestampType) == "LogAppendTime" {
		v.TimestampType = LogAppendTime
	}
	policies := SplitList(Effective(topic, broker, CleanupPolicy))
	v.Compact, v.Delete = slices.Contains(policies, "compact"), slices.Contains(policies, "delete")
	v.MinDirtyRatio, _ = strconv.ParseFloat(Effective(topic, broker, MinCleanableDirtyRatio), 64)
	switch v.CompressionType {
	case "gzip", "lz4", "zstd":
		v.CompressionLevel = int(number("compression." + v.CompressionType + ".level"))
	}
	return v
}

func milliseconds(ms int64) time.Duration {
	const limit = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(min(ms, limit)) * time.Millisecond
}
