package compare

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/observe"
	"github.com/freshet-io/freshet/bench/omb"
	"github.com/freshet-io/freshet/bench/report"
	"github.com/freshet-io/freshet/objstore/open"
)

var update = flag.Bool("update", false, "rewrite golden files")

// run makes a result with the figures that are compared: rate in messages of 1 KiB a second, latencies and CPU seconds.
func run(name, system string, rate, p50, cpu float64) report.Run {
	f := report.Figures{
		MessageBytes: 1024, Seconds: []float64{32, 64}, PublishRate: []float64{rate, rate}, PublishErrorRate: []float64{0, 0.5}, ConsumeRate: []float64{rate, rate},
		PublishTotal: report.Latency{P50: p50, P99: 3 * p50}, EndToEndTotal: report.Latency{P50: 2 * p50, P99: 6 * p50},
	}
	used := func(name string, apart bool, cpu float64, memory int64) observe.History {
		return observe.History{Name: name, Apart: apart, Samples: []observe.Sample{{CPU: 1}, {At: 64, CPU: 1 + cpu, ResidentBytes: memory, PeakBytes: memory}}}
	}
	return report.Run{
		Name: name, System: system, Figures: f,
		Observed: &observe.Series{Targets: []observe.History{used("server", false, cpu, 200<<20), used("store", true, cpu/4, 1<<30)}},
	}
}

func examplePairs() []pair {
	return []pair{
		{kafka: run("round-1-kafka", nameKafka, 16384, 5, 8), freshet: run("round-1-freshet", nameFreshet, 16384, 250, 4), kafkaFirst: true},
		{kafka: run("round-2-kafka", nameKafka, 16384, 4, 10), freshet: run("round-2-freshet", nameFreshet, 8192, 300, 4)},
		{kafka: run("round-3-kafka", nameKafka, 16384, 10, 9), freshet: run("round-3-freshet", nameFreshet, 16384, 260, 3), kafkaFirst: true},
	}
}

// Ratios are made of each pair, and the median is that of the ratios, not the ratio of medians.
func TestRows_PairByPair(t *testing.T) {
	compared, err := rows(examplePairs())
	require.NoError(t, err)
	byName := map[string]row{}
	for _, r := range compared {
		byName[r.name] = r
	}
	in := byName["throughput in"]
	require.Equal(t, []float64{1, 0.5, 1}, in.ratios)
	require.Equal(t, Spread{Median: 16, Low: 16, High: 16}, in.kafka)
	require.Equal(t, Spread{Median: 16, Low: 8, High: 16}, in.freshet)
	require.Equal(t, Spread{Median: 1, Low: 0.5, High: 1}, in.ratio)

	p50 := byName["produce latency p50"]
	require.Equal(t, []float64{50, 75, 26}, p50.ratios)
	require.InDelta(t, 50, p50.ratio.Median, 0, "260/5, the ratio of medians, would be 52")

	// 16 MiB/s for 64 s are one GiB.
	cpu := byName["CPU per GiB in"]
	require.Equal(t, Spread{Median: 9, Low: 8, High: 10}, cpu.kafka)
	require.Equal(t, Spread{Median: 4, Low: 3, High: 8}, cpu.freshet, "half the bytes for the same CPU are twice the cost")
	withStore := byName["CPU per GiB in, S3 server included"]
	require.Equal(t, Spread{Median: 5, Low: 3.75, High: 10}, withStore.freshet)
	require.Equal(t, Spread{Median: 200, Low: 200, High: 200}, byName["peak memory"].freshet, "memory of what is apart is not counted")
}

func TestRows_RefusesWhatWasNotMeasured(t *testing.T) {
	pairs := examplePairs()
	pairs[1].kafka.Observed = nil
	pairs[2].freshet.Figures.EndToEndTotal.P99 = 0
	_, err := rows(pairs)
	require.ErrorIs(t, err, errNoFigure)
	require.ErrorContains(t, err, "run round-2-kafka: CPU per GiB in: not measured")
	require.ErrorContains(t, err, "run round-3-freshet: end-to-end latency p99: not measured")
}

func TestSpreadOf(t *testing.T) {
	require.Equal(t, Spread{Median: 2, Low: 1, High: 9}, spreadOf([]float64{9, 1, 2}))
	require.Equal(t, Spread{Median: 3, Low: 1, High: 9}, spreadOf([]float64{9, 1, 2, 4}))
	require.Equal(t, Spread{Median: 7, Low: 7, High: 7}, spreadOf([]float64{7}))
	require.Zero(t, spreadOf(nil))
}

func TestWriteMarkdown_Golden(t *testing.T) {
	pairs := examplePairs()
	pairs[1].freshet.Warnings = []string{"the schedule could not be kept"}
	compared, err := rows(pairs)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, writeMarkdown(&out, facts{
		Date: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC), Workload: "warpstream-vanity", Command: "freshet-bench compare --rounds 3",
		Machine: "2 cores", Versions: []string{"Apache Kafka 4.3.1", "Freshet v1"}, Setup: []string{"one", "two"},
		Settings: []report.Setting{{Name: "producerRate", Original: "1000000", Effective: "20000"}, {Name: "topics", Original: "1", Effective: "1"}},
	}, pairs, compared))
	golden := filepath.Join("testdata", "compare.md")
	if *update {
		require.NoError(t, os.WriteFile(golden, out.Bytes(), 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
}

// fake stands for a system: metrics that grow with each look.
type fake struct {
	called  string
	metrics string
	starts  *[]string
	dirs    *[]string
}

func (f fake) name() string { return f.called }

func (f fake) start(_ context.Context, dir string) (*instance, error) {
	*f.starts, *f.dirs = append(*f.starts, f.called), append(*f.dirs, dir)
	return &instance{bootstrap: f.called + ":9092", targets: []observe.Target{{Name: f.called, Metrics: f.metrics}}}, nil
}

// An even round over fakes: Freshet first, fresh directories, all files, and usage of the measured part only.
func TestComparison_SecondRound(t *testing.T) {
	looks := make(chan struct{}, 100)
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "process_cpu_seconds_total %d\nprocess_resident_memory_bytes 1048576\n", n.Add(1))
		looks <- struct{}{}
	}))
	defer server.Close()
	var starts, dirs, bootstraps []string
	load := func(_ context.Context, cfg omb.Config) (*omb.Outcome, error) {
		bootstraps = append(bootstraps, cfg.Bootstrap)
		for len(looks) > 0 {
			<-looks // of the run before
		}
		<-looks
		<-looks
		began := time.Now()
		<-looks
		return &omb.Outcome{Result: exampleResult(), Began: began, Ended: time.Now()}, nil
	}
	var table, summary bytes.Buffer
	cfg := Config{Dir: t.TempDir(), Work: t.TempDir(), Rounds: 2, Out: &table, JSON: &summary}
	cfg.ApplyDefaults()
	work, err := cfg.task()
	require.NoError(t, err)
	c := &comparison{
		cfg: cfg, task: work, load: load, facts: facts{Date: time.Now(), Workload: work.workload.Name, Machine: machine(), Settings: work.settings},
		kafka: fake{nameKafka, server.URL, &starts, &dirs}, freshet: fake{nameFreshet, server.URL, &starts, &dirs},
		dpi: 36, // the detector of races makes each pixel dear
	}
	require.NoError(t, c.pair(t.Context(), 2))
	require.NoError(t, c.write())

	require.Equal(t, []string{nameFreshet, nameKafka}, starts)
	require.Equal(t, []string{"Freshet:9092", "Apache Kafka:9092"}, bootstraps)
	require.NotEqual(t, dirs[0], dirs[1])
	for _, dir := range dirs {
		require.NoDirExists(t, dir)
	}
	for _, name := range []string{
		"round-2-kafka.json", "round-2-kafka.observed.json", "round-2-freshet.notes.json", "compare.md", "summary.json", "index.html", "versus-produce-p99.png",
	} {
		require.FileExists(t, filepath.Join(cfg.Dir, name))
	}
	result, err := omb.ReadResult(filepath.Join(cfg.Dir, "round-2-freshet.json"))
	require.NoError(t, err)
	require.Equal(t, nameFreshet, result.Driver)
	require.Contains(t, table.String(), "| throughput in ")
	require.Contains(t, table.String(), "first in turn: Freshet\n")
	var s Summary
	require.NoError(t, json.Unmarshal(summary.Bytes(), &s))
	require.Len(t, s.Figures, len(figures))
	require.Equal(t, []float64{1}, s.Figures[0].Ratios)
}

// exampleResult is a test of two periods.
func exampleResult() omb.Result {
	floats, whole := []float64{1000, 1000}, []int64{1, 1}
	return omb.Result{
		Workload: "w", MessageSize: 1024, PublishRate: floats, PublishErrorRate: floats, ConsumeRate: floats, Backlog: whole,
		PublishLatencyAvg: floats, PublishLatency50pct: floats, PublishLatency75pct: floats, PublishLatency95pct: floats,
		PublishLatency99pct: floats, PublishLatency999pct: floats, PublishLatency9999pct: floats, PublishLatencyMax: floats,
		PublishDelayLatencyAvg: floats, PublishDelayLatency50pct: whole, PublishDelayLatency75pct: whole, PublishDelayLatency95pct: whole,
		PublishDelayLatency99pct: whole, PublishDelayLatency999pct: whole, PublishDelayLatency9999pct: whole, PublishDelayLatencyMax: whole,
		EndToEndLatencyAvg: floats, EndToEndLatency50pct: floats, EndToEndLatency75pct: floats, EndToEndLatency95pct: floats,
		EndToEndLatency99pct: floats, EndToEndLatency999pct: floats, EndToEndLatency9999pct: floats, EndToEndLatencyMax: floats,
		AggregatedPublishLatency50pct: 1, AggregatedPublishLatency99pct: 2, AggregatedEndToEndLatency50pct: 3, AggregatedEndToEndLatency99pct: 4,
	}
}

func TestTask_TellsWhatIsRun(t *testing.T) {
	cfg := Config{Scale: 0.5, Duration: 90 * time.Second, Warmup: 15 * time.Second}
	cfg.ApplyDefaults()
	work, err := cfg.task()
	require.NoError(t, err)
	require.NoError(t, work.workload.Validate())
	require.Equal(t, 90*time.Second, work.workload.Test())
	require.Equal(t, 15*time.Second, work.workload.Warmup())
	require.Equal(t, 3*time.Second, work.workload.Interval())
	require.InDelta(t, 500_000, work.workload.ProducerRate, 0)
	require.Contains(t, work.settings, report.Setting{Name: "testDurationMinutes", Original: "1600", Effective: "1.5"})
	require.Contains(t, work.settings, report.Setting{Name: "logIntervalMillis", Original: "10000", Effective: "3000"})
	require.Contains(t, work.settings, report.Setting{Name: "producersPerTopic", Original: "64", Effective: "32"})
	require.Empty(t, work.warnings)

	dir := t.TempDir()
	cfg.Driver = filepath.Join(dir, "driver.yaml")
	require.NoError(t, os.WriteFile(cfg.Driver, []byte("name: d\nreplicationFactor: 3\n"), 0o600))
	work, err = cfg.task()
	require.NoError(t, err)
	require.EqualValues(t, 1, work.driver.ReplicationFactor)
	require.Contains(t, strings.Join(work.warnings, "\n"), "the driver asks for 3 replicas; single nodes have one")

	cfg.Workload = filepath.Join(dir, "nowhere.yaml")
	_, err = cfg.task()
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestConfig_ValidateGivesAllFaults(t *testing.T) {
	err := Run(t.Context(), Config{Scale: -1, Duration: time.Second, Warmup: -1, Rounds: -1, Memory: 1, Latency: "moon"})
	for _, want := range []string{
		"scale -1: want more than 0", "duration 1s: want at least 5s", "warm-up -1ns: want 0s or more", "rounds -1: want 1 to 100",
		"memory 1 bytes: want at least 268435456", `latency "moon": want none, s3-standard or s3-express`,
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestBucketURL_Opens(t *testing.T) {
	for _, latency := range []string{NoLatency, "s3-standard", "s3-express"} {
		bucket, err := open.Bucket(t.Context(), bucketURL("http://127.0.0.1:1", latency))
		require.NoError(t, err, latency)
		require.NoError(t, bucket.Close())
	}
}

func TestRunRole_NamesWhatIsWrong(t *testing.T) {
	require.ErrorContains(t, RunRole(t.Context(), "broker", "{}", io.Discard), `unknown role of a comparison "broker"`)
	require.ErrorContains(t, RunRole(t.Context(), roleControl, "{", io.Discard), "decode role")
}
