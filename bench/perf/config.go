package perf

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"time"
)

// Config is a test. The names of its fields in the JSON result are those of AutoMQ's PerfConfig.
type Config struct {
	Bootstrap      string            // host:port, several separated by commas
	Common         map[string]string // Java client properties of producers, consumers and admin
	CommonFile     string            // file of such properties, "" for none; Common goes before it
	TopicConfigs   map[string]string
	Producer       map[string]string // Java client properties
	Consumer       map[string]string // likewise
	Reset          bool              // delete the topics of all earlier tests first
	ReuseTopics    bool              // use topics with TopicPrefix if there are any
	CatchupPrefix  string            // read the topics with this prefix, without building a backlog
	TopicPrefix    string            // after topicPrefix in the topic's name; random if ""
	Topics         int
	Partitions     int // of each topic
	Producers      int // of each topic
	Groups         int // of each topic; 0 only produces
	Consumers      int // of each group
	AwaitReady     bool
	RecordSize     int     // bytes
	RandomRatio    float64 // of each record's bytes, 0 to 1
	RandomPoolSize int     // different records when some of their bytes are random
	SendRate       int     // records a second in all
	SendThroughput float64 // MiB a second; if above 0, it sets SendRate
	CatchupRate    int     // records a second while groups catch up; 0 means SendRate
	MaxConsume     int     // records a second of all consumers
	CatchupPercent int     // of topics whose consumers take part in the catch-up
	Backlog        time.Duration
	MinBacklog     time.Duration // shortest Backlog that Validate takes, the tool's 300 s unless set
	GroupDelay     time.Duration
	Warmup         time.Duration
	Test           time.Duration
	CatchupLimit   time.Duration // a catch-up that takes longer fails; the tool has no limit
	Interval       time.Duration // between lines
	ValueSchema    string        // Avro schema of the values, "" for none
	ValuesFile     string        // file of values as JSON, one a line
	ResultDir      string        // where the JSON file goes
	DeleteTopics   bool          // delete topics that this test made, and its groups, at its end; the tool leaves them
	Out            io.Writer
}

const (
	minBacklog      = 300 * time.Second // of the tool
	mebibyte        = 1 << 20
	maxConsumeLimit = 1_000_000_000
)

// DefaultConfig is what the tool does without options.
func DefaultConfig() Config {
	return Config{
		Bootstrap: "localhost:9092", Topics: 1, Partitions: 1, Producers: 1, Groups: 1, Consumers: 1, AwaitReady: true,
		RecordSize: 1024, RandomPoolSize: 1000, SendRate: 1000, MaxConsume: maxConsumeLimit, CatchupPercent: 100,
		MinBacklog: minBacklog, Warmup: time.Minute, Test: 5 * time.Minute, CatchupLimit: 24 * time.Hour,
		Interval: time.Second, ResultDir: ".",
	}
}

// ApplyDefaults fills what the tool derives from other options.
func (c *Config) ApplyDefaults() {
	if c.SendThroughput > 0 && c.RecordSize > 0 {
		c.SendRate = int(c.SendThroughput * mebibyte / float64(c.RecordSize))
	}
	if c.CatchupRate == 0 {
		c.CatchupRate = c.SendRate
	}
	if c.TopicPrefix == "" {
		c.TopicPrefix = fmt.Sprintf("topic_%d_%s", time.Now().UnixMilli(), randomString(4))
	}
	if c.Out == nil {
		c.Out = os.Stdout
	}
}

func randomString(n int) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[rand.IntN(len(letters))]
	}
	return string(b)
}

// Validate gives all faults, each by the name of its option.
func (c *Config) Validate() error {
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(c.Bootstrap != "", "--bootstrap-server must not be empty")
	for _, o := range []struct {
		name  string
		value int
	}{
		{"topics", c.Topics},
		{"partitions-per-topic", c.Partitions},
		{"producers-per-topic", c.Producers},
		{"consumers-per-group", c.Consumers},
		{"record-size", c.RecordSize},
		{"random-pool-size", c.RandomPoolSize},
		{"send-rate", c.SendRate},
		{"send-rate-during-catchup", c.CatchupRate},
	} {
		check(o.value > 0, "--%s must be above 0, not %d", o.name, o.value)
	}
	check(c.Groups >= 0, "--groups-per-topic must be 0 or more, not %d", c.Groups)
	check(c.RandomRatio >= 0 && c.RandomRatio <= 1, "--random-ratio must be from 0 to 1, not %v", c.RandomRatio)
	check(c.SendThroughput >= 0 && !math.IsInf(c.SendThroughput, 0), "--send-throughput must be above 0, not %v", c.SendThroughput)
	check(c.MaxConsume > 0 && c.MaxConsume <= maxConsumeLimit,
		"--max-consume-record-rate must be from 1 to %d, not %d", maxConsumeLimit, c.MaxConsume)
	check(c.CatchupPercent >= 0 && c.CatchupPercent <= 100, "--consumers-during-catchup must be from 0 to 100, not %d", c.CatchupPercent)
	check(c.Test > 0, "--test-duration must be above 0, not %v", c.Test)
	check(c.Warmup >= 0, "--warmup-duration must be 0 or more, not %v", c.Warmup)
	check(c.Interval > 0, "--reporting-interval must be above 0, not %v", c.Interval)
	check(c.CatchupLimit > 0, "--catchup-limit must be above 0, not %v", c.CatchupLimit)
	check(c.ValuesFile == "" || c.ValueSchema != "", "--values-file needs --value-schema")
	return errors.Join(append(faults, c.checkBacklog()...)...)
}

func (c *Config) checkBacklog() []error {
	var faults []error
	if c.Backlog != 0 && c.Backlog < c.MinBacklog {
		faults = append(faults, fmt.Errorf("--backlog-duration must be 0 or at least %v, not %v", c.MinBacklog, c.Backlog))
	}
	if c.GroupDelay < 0 {
		faults = append(faults, fmt.Errorf("--group-start-delay must be 0 or more, not %v", c.GroupDelay))
	}
	if behind := time.Duration(c.Groups) * c.GroupDelay; c.Backlog < behind {
		faults = append(faults, fmt.Errorf("--backlog-duration %v must be at least --groups-per-topic x --group-start-delay, which is %v",
			c.Backlog, behind))
	}
	if (c.Backlog > 0 || c.CatchupPrefix != "") && c.Groups == 0 {
		faults = append(faults, errors.New("catching up needs --groups-per-topic above 0"))
	}
	return faults
}
