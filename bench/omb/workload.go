package omb

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/freshet-io/freshet/bench/load"
)

// Workload is a workload file. Names and meanings are the framework's.
type Workload struct {
	Name                      string      `yaml:"name"`
	Topics                    int         `yaml:"topics"`
	PartitionsPerTopic        int         `yaml:"partitionsPerTopic"`
	PartitionsPerTopicList    []int       `yaml:"partitionsPerTopicList,omitempty"` // one for each topic, instead
	RandomTopicNames          bool        `yaml:"randomTopicNames"`                 // default true: topics of each run are its own
	KeyDistributor            load.Keys   `yaml:"keyDistributor"`                   // default NO_KEY
	MessageSize               int         `yaml:"messageSize"`                      // bytes of a value
	UseRandomizedPayloads     bool        `yaml:"useRandomizedPayloads"`            // else payloadFile
	RandomBytesRatio          float64     `yaml:"randomBytesRatio"`                 // 0 to 1; the rest of a value is zeros
	RandomizedPayloadPoolSize int         `yaml:"randomizedPayloadPoolSize"`        // different values
	PayloadFile               string      `yaml:"payloadFile"`                      // of exactly messageSize bytes
	SubscriptionsPerTopic     int         `yaml:"subscriptionsPerTopic"`            // consumer groups
	ProducersPerTopic         int         `yaml:"producersPerTopic"`
	ProducersPerTopicList     []int       `yaml:"producersPerTopicList,omitempty"` // one for each topic, instead
	ConsumerPerSubscription   int         `yaml:"consumerPerSubscription"`
	ProducerRate              float64     `yaml:"producerRate"`               // messages/s of all producers; 0 looks for the highest
	ProducerRateList          [][]float64 `yaml:"producerRateList,omitempty"` // see Curve
	ConsumerBacklogSizeGB     float64     `yaml:"consumerBacklogSizeGB"`      // 1024^3 bytes, over all subscriptions
	BacklogDrainRatio         float64     `yaml:"backlogDrainRatio"`          // default 1: the part of the backlog to catch up with
	TestDurationMinutes       float64     `yaml:"testDurationMinutes"`        // 0: until the run is ended from outside
	WarmupDurationMinutes     float64     `yaml:"warmupDurationMinutes"`      // default 1
	LogIntervalMillis         int         `yaml:"logIntervalMillis"`          // default 10000: length of the periods

	// Path of the file this was read from, if any: where payload files are looked for as well.
	Path string `yaml:"-"`
}

// NewWorkload gives the defaults of an empty file.
func NewWorkload() Workload {
	return Workload{
		KeyDistributor: load.NoKey, RandomTopicNames: true, BacklogDrainRatio: 1, WarmupDurationMinutes: 1,
		LogIntervalMillis: 10_000,
	}
}

// ErrWorkload says that a workload cannot be run.
var ErrWorkload = errors.New("workload")

// Validate gives all faults at once.
func (w *Workload) Validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf("%w: "+format, append([]any{ErrWorkload}, args...)...))
		}
	}
	fault(w.Topics < 1, "topics is %d, at least 1 is needed", w.Topics)
	fault(w.PartitionsPerTopic < 1 && w.PartitionsPerTopicList == nil, "partitionsPerTopic is %d, at least 1 is needed", w.PartitionsPerTopic)
	fault(w.ProducersPerTopic < 1 && w.ProducersPerTopicList == nil, "producersPerTopic is %d, at least 1 is needed", w.ProducersPerTopic)
	for name, list := range map[string][]int{
		"partitionsPerTopicList": w.PartitionsPerTopicList, "producersPerTopicList": w.ProducersPerTopicList,
	} {
		fault(list != nil && len(list) != w.Topics, "%s has %d entries, topics is %d", name, len(list), w.Topics)
		for _, n := range list {
			fault(n < 1, "%s has %d, at least 1 is needed", name, n)
		}
	}
	fault(w.SubscriptionsPerTopic < 0, "subscriptionsPerTopic is %d, at least 0 is needed", w.SubscriptionsPerTopic)
	fault(w.ConsumerPerSubscription < 1 && w.SubscriptionsPerTopic > 0, "consumerPerSubscription is %d, at least 1 is needed", w.ConsumerPerSubscription)
	fault(w.LogIntervalMillis < 1, "logIntervalMillis is %d, at least 1 is needed", w.LogIntervalMillis)
	if _, err := load.ParseKeys(string(w.KeyDistributor)); err != nil {
		faults = append(faults, fmt.Errorf("%w: keyDistributor: %w", ErrWorkload, err))
	}
	w.validatePayload(fault)
	w.validateRate(fault)
	return errors.Join(faults...)
}

func (w *Workload) validatePayload(fault func(bool, string, ...any)) {
	fault(w.MessageSize < 1, "messageSize is %d, at least 1 byte is needed", w.MessageSize)
	if w.UseRandomizedPayloads {
		fault(!upTo(w.RandomBytesRatio, 1), "randomBytesRatio is %v, allowed is 0 to 1", w.RandomBytesRatio)
		fault(w.RandomizedPayloadPoolSize < 1, "randomizedPayloadPoolSize is %d, at least 1 is needed", w.RandomizedPayloadPoolSize)
		return
	}
	fault(w.PayloadFile == "", "neither useRandomizedPayloads nor payloadFile is given")
}

func (w *Workload) validateRate(fault func(bool, string, ...any)) {
	fault(!upTo(w.ProducerRate, 1e12), "producerRate is %v, allowed is 0 (look for the highest) to 1e12", w.ProducerRate)
	fault(!upTo(w.BacklogDrainRatio, 1), "backlogDrainRatio is %v, allowed is 0 to 1", w.BacklogDrainRatio)
	for name, v := range map[string]float64{
		"consumerBacklogSizeGB": w.ConsumerBacklogSizeGB, "testDurationMinutes": w.TestDurationMinutes, "warmupDurationMinutes": w.WarmupDurationMinutes,
	} {
		fault(!upTo(v, 1e9), "%s is %v, allowed is 0 to 1e9", name, v)
	}
	fault(w.ConsumerBacklogSizeGB > 0 && w.ProducerRate == 0 && w.ProducerRateList == nil, "consumerBacklogSizeGB needs a producerRate: a backlog cannot be built while looking for the highest rate")
	fault(w.ConsumerBacklogSizeGB > 0 && w.SubscriptionsPerTopic == 0, "consumerBacklogSizeGB needs subscriptionsPerTopic above 0")
	fault(w.ProducerRate == 0 && w.SubscriptionsPerTopic == 0 && w.ProducerRateList == nil, "producerRate 0 needs subscriptionsPerTopic above 0: the search compares sent with received")
	_, err := w.Curve()
	fault(err != nil, "producerRateList: %v", err)
}

// upTo says that a number is within 0 and high; NaN is not.
func upTo(v, high float64) bool { return v >= 0 && v <= high }

// Warmup gives the length of the warm-up.
func (w *Workload) Warmup() time.Duration { return minutes(w.WarmupDurationMinutes) }

// Test gives the length of the test; 0 is without end.
func (w *Workload) Test() time.Duration { return minutes(w.TestDurationMinutes) }

func minutes(m float64) time.Duration { return time.Duration(math.Round(m * float64(time.Minute))) }

// Interval gives the length of a period of statistics.
func (w *Workload) Interval() time.Duration {
	return time.Duration(w.LogIntervalMillis) * time.Millisecond
}

// partitions gives how many partitions a topic gets.
func (w *Workload) partitions(topic int) int {
	if w.PartitionsPerTopicList != nil {
		return w.PartitionsPerTopicList[topic]
	}
	return w.PartitionsPerTopic
}

// producers gives how many producers a topic gets.
func (w *Workload) producers(topic int) int {
	if w.ProducersPerTopicList != nil {
		return w.ProducersPerTopicList[topic]
	}
	return w.ProducersPerTopic
}
