package compare

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/freshet-io/freshet/bench/omb"
	"github.com/freshet-io/freshet/bench/report"
	"github.com/freshet-io/freshet/bench/workloads"
)

// Config of a comparison.
type Config struct {
	Workload string        // file; empty: DefaultWorkload
	Driver   string        // file; empty: that of DefaultWorkload
	Scale    float64       // factor of rates and clients
	Duration time.Duration // measured in each run
	Warmup   time.Duration // of each run, before
	Rounds   int           // pairs of runs

	KafkaHome string // unpacked release of Apache Kafka; empty: KafkaVersion from Maven Central
	Java      string // program
	S3Server  string // versitygw's program; empty: from the search path, else S3ServerVersion is fetched
	Latency   string // model of an object store to add to the S3 server's: NoLatency, s3-standard, s3-express
	Memory    int64  // bytes: Kafka's heap, and the memory limit of Freshet's agent

	Dir      string    // for results and reports
	Work     string    // for the systems' data, removed after each run; empty: a temporary directory
	Version  string    // of Freshet
	Command  string    // that this was started with
	Out      io.Writer // progress, then the table
	JSON     io.Writer // of the summary, as JSON; nil: none
	Progress io.Writer // of a progress bar, a terminal; nil: none
}

// DefaultWorkload is what is run if nothing else is named.
const DefaultWorkload = "warpstream-vanity"

// NoLatency adds none.
const NoLatency = "none"

// Bounds of a comparison.
const (
	minMemory = 256 << 20 // below it neither Kafka nor an agent is run in earnest
	maxRounds = 100
	minTest   = 5 * time.Second // below it there are too few samples
)

// ApplyDefaults fills what is zero.
func (c *Config) ApplyDefaults() {
	if c.Scale == 0 {
		c.Scale = 0.02
	}
	if c.Duration == 0 {
		c.Duration = time.Minute
	}
	if c.Warmup == 0 {
		c.Warmup = time.Minute // a JVM is slow before
	}
	if c.Rounds == 0 {
		c.Rounds = 3
	}
	if c.Java == "" {
		c.Java = "java"
	}
	if c.Latency == "" {
		c.Latency = NoLatency
	}
	if c.Memory == 0 {
		c.Memory = 1 << 30
	}
	if c.Dir == "" {
		c.Dir = "compare"
	}
	if c.Out == nil {
		c.Out = io.Discard
	}
}

// Validate gives all faults at once.
func (c *Config) Validate() error {
	var faults []error
	fault := func(bad bool, format string, args ...any) {
		if bad {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	fault(c.Scale < 0 || c.Scale > 1000, "scale %g: want more than 0 and at most 1000", c.Scale)
	fault(c.Duration < minTest, "duration %s: want at least %s", c.Duration, minTest)
	fault(c.Warmup < 0, "warm-up %s: want 0s or more", c.Warmup)
	fault(c.Rounds < 1 || c.Rounds > maxRounds, "rounds %d: want 1 to %d", c.Rounds, maxRounds)
	fault(c.Memory < minMemory, "memory %d bytes: want at least %d", c.Memory, int64(minMemory))
	fault(!slices.Contains([]string{NoLatency, "s3-standard", "s3-express"}, c.Latency), "latency %q: want none, s3-standard or s3-express", c.Latency)
	return errors.Join(faults...)
}

// task is the workload as it is run.
type task struct {
	driver   omb.Driver
	workload omb.Workload
	settings []report.Setting
	warnings []string
}

// task reads the files and scales. Both systems are single nodes, so that nothing can have more replicas than one.
func (c *Config) task() (task, error) {
	t, err := c.files()
	if err != nil {
		return t, err
	}
	if t.driver.ReplicationFactor > 1 {
		t.warnings = append(t.warnings, fmt.Sprintf("the driver asks for %d replicas; single nodes have one", t.driver.ReplicationFactor))
		t.driver.ReplicationFactor = 1
	}
	original := t.workload
	var settings []workloads.Setting
	t.workload, settings = workloads.Scale{Factor: c.Scale, Duration: c.Warmup + c.Duration}.Workload(original)
	t.workload.WarmupDurationMinutes, t.workload.TestDurationMinutes = c.Warmup.Minutes(), c.Duration.Minutes()
	t.workload.LogIntervalMillis = int(period(c.Duration).Milliseconds())
	effective := map[string]string{
		"warmupDurationMinutes": trimmed(t.workload.WarmupDurationMinutes), "testDurationMinutes": trimmed(t.workload.TestDurationMinutes),
		"logIntervalMillis": fmt.Sprint(t.workload.LogIntervalMillis),
	}
	for _, s := range settings {
		if v, ok := effective[s.Name]; ok {
			s.Effective = v
		}
		if s.Original != "" || s.Effective != "" {
			t.settings = append(t.settings, report.Setting(s))
		}
	}
	return t, nil
}

func trimmed(v float64) string { return fmt.Sprintf("%.4g", v) }

// period gives the length of the periods of a test: at most a thirtieth, in whole seconds, at most the format's usual 10.
func period(test time.Duration) time.Duration {
	return min(10*time.Second, max(time.Second, (test/30).Truncate(time.Second)))
}

// files reads the workload and its driver.
func (c *Config) files() (t task, err error) {
	entries, err := workloads.Select([]string{DefaultWorkload})
	if err != nil {
		return t, err
	}
	var lines []string
	if c.Workload == "" {
		t.workload, err = entries[0].Workload()
	} else {
		t.workload, lines, err = omb.ReadWorkload(c.Workload)
	}
	t.warnings = append(t.warnings, lines...)
	if err != nil {
		return t, err
	}
	lines = nil
	if c.Driver == "" {
		t.driver, err = entries[0].DriverFile()
	} else {
		t.driver, lines, err = omb.ReadDriver(c.Driver)
	}
	t.warnings = append(t.warnings, lines...)
	return t, err
}
