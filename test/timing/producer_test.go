package timing

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// windows are the bytes that each client has in flight for each partition with its defaults. librdkafka has as much as its queue holds.
// If it is idempotent, it keeps one batch of a partition in flight.
var windows = map[string]float64{
	"java":                   5 * 16 << 10, // max.in.flight.requests.per.connection x batch.size
	"librdkafka":             0,
	"librdkafka, idempotent": 1_000_000, // batch.size
}

// TestProducer_Defaults measures the first throughput test of a user: kafka-producer-perf-test and librdkafka with their defaults, on one
// agent whose S3 server is on this machine. FRESHET_PRODUCER_DEFAULTS is the time of each measurement. Times are printed, not asserted.
func TestProducer_Defaults(t *testing.T) {
	if os.Getenv("FRESHET_PRODUCER_DEFAULTS") == "" {
		t.Skip("measures for minutes; make bench-producers runs it")
	}
	each, err := time.ParseDuration(os.Getenv("FRESHET_PRODUCER_DEFAULTS"))
	require.NoError(t, err)
	for _, store := range []struct{ name, latency string }{{"S3 server on this machine", ""}, {"model of S3 Standard", "s3-standard"}} {
		for _, budget := range strings.Split(os.Getenv("FRESHET_PRODUCER_BUDGETS"), ",") {
			t.Run(store.name+", --put-budget "+budget, func(t *testing.T) {
				c := harness.StartCluster(t, harness.ClusterConfig{
					Agents: 1, ControlPlanes: 1, Latency: store.latency, AgentFlags: []string{"--put-budget", budget},
				})
				idle, err := time.ParseDuration(os.Getenv("FRESHET_PRODUCER_IDLE"))
				require.NoError(t, err)
				time.Sleep(idle) // sleeps: the zone saves PUTs meanwhile
				bootstrap := c.Bootstrap()
				latency := oneRecord(t, bootstrap)
				t.Logf("one record at a time: %s", latency.Round(100*time.Microsecond))
				for _, client := range []string{"java", "librdkafka", "librdkafka, idempotent"} {
					for _, partitions := range []int32{1, 12} {
						topic := fmt.Sprintf("%s-%d", strings.ReplaceAll(client, ", ", "-"), partitions)
						createTopic(t, bootstrap, topic, partitions)
						rate, answer := defaultProducer(t, client, bootstrap, topic, each)
						line := fmt.Sprintf("%-22s %2d partitions: %7.2f MiB/s, answers after %6.1f ms", client, partitions, rate, answer)
						if bound := windows[client] * float64(partitions) / latency.Seconds() / (1 << 20); bound > 0 {
							line += fmt.Sprintf("; window over the latency of one record: %.1f MiB/s, share %.2f", bound, rate/bound)
						}
						t.Log(line)
					}
				}
			})
		}
	}
}

func createTopic(t *testing.T, bootstrap, topic string, partitions int32) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	require.NoError(t, err)
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(t.Context(), partitions, 1, nil, topic)
	require.NoError(t, err)
}

// oneRecord returns the median time until a record is acknowledged if nothing else is in flight.
func oneRecord(t *testing.T, bootstrap string) time.Duration {
	t.Helper()
	createTopic(t, bootstrap, "alone", 1)
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ProducerLinger(0))
	require.NoError(t, err)
	defer client.Close()
	var took []time.Duration
	for range 40 {
		began := time.Now()
		require.NoError(t, client.ProduceSync(t.Context(), &kgo.Record{Topic: "alone", Value: []byte("x")}).FirstErr())
		took = append(took, time.Since(began))
		time.Sleep(300 * time.Millisecond) // sleeps: so that a PUT of the budget is free
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// inTests returns the absolute path of a file below test/.
func inTests(t *testing.T, elements ...string) string {
	t.Helper()
	here, err := os.Getwd()
	require.NoError(t, err)
	return filepath.Join(append([]string{filepath.Dir(here)}, elements...)...)
}

// sent matches the line of kafka-producer-perf-test for 5 s: MB are MiB there.
var sent = regexp.MustCompile(`records sent, [0-9.]+ records/sec \(([0-9.]+) MB/sec\), ([0-9.]+) ms avg latency`)

// defaultProducer lets a client produce records of 1 KiB as fast as its defaults allow, and returns the means without the first 5 s.
func defaultProducer(t *testing.T, client, bootstrap, topic string, each time.Duration) (mibPerSecond, latencyMs float64) {
	t.Helper()
	var p *testservers.Process
	if client == "java" {
		p = harness.JavaProcess(t, "java-producer", func() error { return nil }, "org.apache.kafka.tools.ProducerPerformance",
			"--bootstrap-server", bootstrap, "--topic", topic, "--record-size", "1024", "--num-records", "1000000000", "--throughput", "-1")
	} else {
		python := harness.PythonWith(t, inTests(t, "matrix", "python", "requirements", "confluent-kafka-2.16.1.txt"))
		p = testservers.NewProcess(t, "librdkafka-producer", python, []string{"-B", inTests(t, "timing", "producer.py"), bootstrap, topic, strconv.FormatBool(client != "librdkafka")},
			func() error { return nil })
	}
	p.Launch()
	time.Sleep(each) // sleeps: the measurement
	p.Kill()
	lines := sent.FindAllStringSubmatch(p.Output(), -1)
	require.Greater(t, len(lines), 1, "%s", p.Output())
	for _, line := range lines[1:] {
		rate, err := strconv.ParseFloat(line[1], 64)
		require.NoError(t, err)
		latency, err := strconv.ParseFloat(line[2], 64)
		require.NoError(t, err)
		mibPerSecond, latencyMs = mibPerSecond+rate, latencyMs+latency
	}
	n := float64(len(lines) - 1)
	return mibPerSecond / n, latencyMs / n
}
