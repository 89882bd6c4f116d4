package workloads

import (
	"encoding/json"
	"strconv"

	"github.com/freshet-io/freshet/bench/omb"
	"github.com/freshet-io/freshet/bench/perf"
)

// Setting is a value of a workload before and after scaling. Names are those of the file's format.
type Setting struct {
	Name      string `json:"name"`
	Original  string `json:"original"`
	Effective string `json:"effective"`
}

func settingsOfWorkload(a, b omb.Workload) []Setting {
	return []Setting{
		integer("topics", a.Topics, b.Topics),
		integer("partitionsPerTopic", a.PartitionsPerTopic, b.PartitionsPerTopic),
		list("partitionsPerTopicList", a.PartitionsPerTopicList, b.PartitionsPerTopicList),
		{"keyDistributor", string(a.KeyDistributor), string(b.KeyDistributor)},
		integer("messageSize", a.MessageSize, b.MessageSize),
		number("randomBytesRatio", a.RandomBytesRatio, b.RandomBytesRatio),
		integer("randomizedPayloadPoolSize", a.RandomizedPayloadPoolSize, b.RandomizedPayloadPoolSize),
		integer("subscriptionsPerTopic", a.SubscriptionsPerTopic, b.SubscriptionsPerTopic),
		integer("consumerPerSubscription", a.ConsumerPerSubscription, b.ConsumerPerSubscription),
		integer("producersPerTopic", a.ProducersPerTopic, b.ProducersPerTopic),
		list("producersPerTopicList", a.ProducersPerTopicList, b.ProducersPerTopicList),
		number("producerRate", a.ProducerRate, b.ProducerRate),
		list("producerRateList", a.ProducerRateList, b.ProducerRateList),
		number("consumerBacklogSizeGB", a.ConsumerBacklogSizeGB, b.ConsumerBacklogSizeGB),
		number("warmupDurationMinutes", a.WarmupDurationMinutes, b.WarmupDurationMinutes),
		number("testDurationMinutes", a.TestDurationMinutes, b.TestDurationMinutes),
		integer("logIntervalMillis", a.LogIntervalMillis, b.LogIntervalMillis),
	}
}

func settingsOfPerf(a, b perf.Config) []Setting {
	return []Setting{
		integer("topics", a.Topics, b.Topics),
		integer("partitions-per-topic", a.Partitions, b.Partitions),
		integer("producers-per-topic", a.Producers, b.Producers),
		integer("groups-per-topic", a.Groups, b.Groups),
		integer("consumers-per-group", a.Consumers, b.Consumers),
		integer("record-size", a.RecordSize, b.RecordSize),
		number("random-ratio", a.RandomRatio, b.RandomRatio),
		integer("send-rate", a.SendRate, b.SendRate),
		integer("send-rate-during-catchup", a.CatchupRate, b.CatchupRate),
		number("backlog-duration", a.Backlog.Seconds(), b.Backlog.Seconds()),
		number("group-start-delay", a.GroupDelay.Seconds(), b.GroupDelay.Seconds()),
		number("warmup-duration", a.Warmup.Minutes(), b.Warmup.Minutes()),
		number("test-duration", a.Test.Minutes(), b.Test.Minutes()),
	}
}

func integer(name string, a, b int) Setting {
	return Setting{name, strconv.Itoa(a), strconv.Itoa(b)}
}

// digits is how exactly numbers are told.
const digits = 6

func number(name string, a, b float64) Setting { return Setting{name, decimal(a), decimal(b)} }

func decimal(v float64) string {
	return strconv.FormatFloat(rounded(v), 'f', -1, 64)
}

func rounded(v float64) float64 {
	r, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	if err != nil {
		return v
	}
	return r
}

func list[T int | float64 | []float64](name string, a, b []T) Setting {
	return Setting{name, listed(a), listed(b)}
}

func listed[T int | float64 | []float64](l []T) string {
	if len(l) == 0 {
		return ""
	}
	if points, ok := any(l).([][]float64); ok {
		var short [][]float64
		for _, p := range points {
			var q []float64
			for _, v := range p {
				q = append(q, rounded(v))
			}
			short = append(short, q)
		}
		return text(short)
	}
	return text(l)
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error() // numbers that JSON does not have; Validate refuses them
	}
	return string(b)
}
