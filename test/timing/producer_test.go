package timing

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
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
var windows = map[string]int{
	"java":                   5 * 16 << 10, // max.in.flight.requests.per.connection x batch.size
	"librdkafka":             0,
	"librdkafka, idempotent": 1_000_000, // batch.size
}

// producerClients are the clients in the order of the measurements. librdkafka without idempotence is the last one: it fills bundles, and its
// data would be compacted beside the others.
var producerClients = []string{"java", "librdkafka, idempotent", "librdkafka"}

// producerCluster is a cluster whose producers are measured.
type producerCluster struct {
	name string
	*harness.Cluster
}

// TestProducer_Defaults measures the first throughput test of a user: kafka-producer-perf-test and librdkafka with their defaults, on one
// agent whose S3 server is on this machine. All clusters start at once, and are measured one by one after FRESHET_PRODUCER_IDLE.
// FRESHET_PRODUCER_DEFAULTS is the time of each measurement. Times are printed, not asserted.
func TestProducer_Defaults(t *testing.T) {
	if os.Getenv("FRESHET_PRODUCER_DEFAULTS") == "" {
		t.Skip("measures for minutes; make bench-producers runs it")
	}
	each, err := time.ParseDuration(os.Getenv("FRESHET_PRODUCER_DEFAULTS"))
	require.NoError(t, err)
	idle, err := time.ParseDuration(os.Getenv("FRESHET_PRODUCER_IDLE"))
	require.NoError(t, err)
	var clusters []producerCluster
	for _, store := range []struct{ name, latency string }{{"S3 server on this machine", ""}, {"model of S3 Standard", "s3-standard"}} {
		for _, budget := range strings.Split(os.Getenv("FRESHET_PRODUCER_BUDGETS"), ",") {
			clusters = append(clusters, producerCluster{store.name + ", --put-budget " + budget, harness.StartCluster(t, harness.ClusterConfig{
				Agents: 1, ControlPlanes: 1, Latency: store.latency, AgentFlags: []string{"--put-budget", budget},
			})})
		}
	}
	time.Sleep(idle) // sleeps: the zones save PUTs meanwhile
	for _, c := range clusters {
		t.Run(c.name, func(t *testing.T) {
			createTopic(t, c.Bootstrap(), "alone", alonePartitions)
			t.Logf("a record of one byte alone: %.1f ms", alone(t, c.Bootstrap(), 1).Seconds()*1000)
			for _, client := range producerClients {
				for _, partitions := range []int32{1, 12} {
					c.measure(t, client, partitions, each)
				}
			}
		})
	}
}

// measure lets a client produce and prints its rate, and the requests, the metadata and the compaction that it caused.
func (c producerCluster) measure(t *testing.T, client string, partitions int32, each time.Duration) {
	t.Helper()
	var latency time.Duration
	window := windows[client] * int(partitions)
	if window > 0 {
		latency = alone(t, c.Bootstrap(), window)
	}
	topic := fmt.Sprintf("%s-%d", strings.ReplaceAll(client, ", ", "-"), partitions)
	createTopic(t, c.Bootstrap(), topic, partitions)
	before, began := c.spent(t), time.Now()
	rate, answer := defaultProducer(t, client, c.Bootstrap(), topic, each)
	after, seconds := c.spent(t), time.Since(began).Seconds()
	line := fmt.Sprintf("%-22s %2d partitions: %7.2f MiB/s, answers after %6.1f ms", client, partitions, rate, answer)
	if window > 0 {
		bound := float64(window) / latency.Seconds() / (1 << 20)
		line += fmt.Sprintf("; the window of %d KiB alone takes %.1f ms: %.2f MiB/s at most, share %.2f", window>>10, latency.Seconds()*1000, bound, rate/bound)
	}
	per := func(name string) float64 { return (after[name] - before[name]) / seconds }
	line += fmt.Sprintf("\n    a second: PUTs %.1f, GETs %.1f, control plane's PUTs %.2f, etcd KiB %.1f, compacted KiB %.0f; savings %.0f -> %.0f; now extents %.0f, bundles %.0f, etcd MiB %.1f",
		per("puts"), per("gets"), per("control puts"), per("etcd")/(1<<10), per("compacted")/(1<<10), before["savings"], after["savings"],
		after["extents"], after["bundles"], after["etcd size"]/(1<<20))
	t.Log(line)
}

// spent returns counters and sizes of the cluster.
func (c producerCluster) spent(t *testing.T) map[string]float64 {
	t.Helper()
	agent, control, etcd := c.Agents[0].HTTP, c.ControlPlanes[0].HTTP, "http://"+c.Etcd.Endpoints()[0]
	values := map[string]float64{}
	for name, m := range map[string]struct {
		address, metric string
		labels          []string
	}{
		"puts":         {agent, "freshet_objstore_requests_total", []string{`operation="put"`}},
		"gets":         {agent, "freshet_objstore_requests_total", []string{`operation="get`}}, // get_range too
		"control puts": {control, "freshet_objstore_requests_total", []string{`operation="put"`}},
		"compacted":    {control, "freshet_jobs_output_bytes_total", nil},
		"extents":      {control, "freshet_owner_live_extents", nil},
		"bundles":      {control, "freshet_owner_live_bundles", nil},
		"savings":      {control, "freshet_zone_put_savings", nil},
		"etcd":         {etcd, "etcd_disk_wal_write_bytes_total", nil},
		"etcd size":    {etcd, "etcd_mvcc_db_total_size_in_bytes", nil},
	} {
		v, err := harness.Metric(m.address, m.metric, m.labels...)
		require.NoError(t, err)
		values[name] = v
	}
	return values
}

func createTopic(t *testing.T, bootstrap, topic string, partitions int32) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap))
	require.NoError(t, err)
	defer client.Close()
	_, err = kadm.NewClient(client).CreateTopic(t.Context(), partitions, 1, nil, topic)
	require.NoError(t, err)
}

const (
	alonePartitions = 12
	// maxAlone is the largest record that alone sends: a batch fits into max.message.bytes.
	maxAlone = 900 << 10
)

// alone returns the mean time until so many bytes are acknowledged if nothing else is in flight. By Little's law, a client's throughput
// is its window over this mean at most.
func alone(t *testing.T, bootstrap string, size int) time.Duration {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.ProducerLinger(0), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerBatchMaxBytes(1<<20))
	require.NoError(t, err)
	defer client.Close()
	records := 1
	if size > maxAlone {
		records = alonePartitions
	}
	const times = 30
	var took time.Duration
	for range times {
		var all []*kgo.Record
		for i := range records {
			all = append(all, &kgo.Record{Topic: "alone", Partition: int32(i), Value: make([]byte, max(size/records, 1))})
		}
		began := time.Now()
		require.NoError(t, client.ProduceSync(t.Context(), all...).FirstErr())
		took += time.Since(began)
		time.Sleep(300 * time.Millisecond) // sleeps: so that a PUT of the budget is free
	}
	return took / times
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
