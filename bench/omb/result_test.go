package omb

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/load"
	"github.com/freshet-io/freshet/bench/worker"
)

var update = flag.Bool("update", false, "write golden files anew")

// golden compares with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// squares are latencies of 1, 4, 9 ... 1,000,000 microseconds, and one of a minute.
func squares(t *testing.T) load.Latencies {
	t.Helper()
	l := load.NewLatencies()
	for i := int64(1); i <= 1000; i++ {
		require.NoError(t, l.Publish.RecordValue(i*i))
		require.NoError(t, l.PublishDelay.RecordValue(i))
		require.NoError(t, l.EndToEnd.RecordValue(i*i*1000))
	}
	require.NoError(t, l.Publish.RecordValue(59_999_999))
	return l
}

func period(t *testing.T) worker.Period {
	t.Helper()
	return worker.Period{Period: load.Period{
		Counters:  load.Counters{Sent: 1_234_567, Failed: 5, BytesSent: 1_264_196_608, Received: 2_400_000, BytesReceived: 2_457_600_000},
		Totals:    load.Counters{Sent: 2_000_000, Received: 3_000_000},
		Latencies: squares(t), Elapsed: 10 * time.Second,
	}}
}

// The line of a period and those of the whole, as the framework pads and rounds.
func TestConsole_Golden(t *testing.T) {
	idle := worker.Period{Period: load.Period{Latencies: load.NewLatencies(), Elapsed: time.Second}}
	lines := append([]string{periodLine(period(t), 1_000_000), periodLine(idle, 0)}, totalLines(squares(t))...)
	golden(t, "console.txt", strings.Join(lines, "\n")+"\n")
}

// Mean, percentiles, maximum and the steps of 100 ticks, against org.HdrHistogram 2.2.2 with the same values.
func TestQuantiles_AsJavas(t *testing.T) {
	h := squares(t).Publish
	require.InDelta(t, 393442.6083916084, h.Mean(), 1e-6)
	require.EqualValues(t, 251007, h.ValueAtPercentile(50))
	require.EqualValues(t, 1000031, h.ValueAtPercentile(99.9))
	require.EqualValues(t, 60000255, h.ValueAtPercentile(99.99))
	require.EqualValues(t, 60000255, h.Max())
	q := quantiles(h, 1000)
	text, err := json.Marshal(q)
	require.NoError(t, err)
	const first = `{"0.0999000999000999":0.001,"0.5994005994005994":0.036,"1.098901098901099":0.121,"1.5984015984015985":0.256,"2.097902097902098":0.441,`
	require.True(t, strings.HasPrefix(string(text), first), string(text[:200]))
	const last = `"99.6003996003996":994.015,"99.7002997002997":996.031,"99.8001998001998":998.015,"99.9000999000999":1000.031,"100.0":60000.255}`
	require.True(t, strings.HasSuffix(string(text), last), string(text[len(text)-200:]))
	var back Quantiles
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, q, back)
	require.Error(t, json.Unmarshal([]byte(`{"x":1}`), &back))
}

func result(t *testing.T) Result {
	t.Helper()
	r := Result{Workload: "w", Driver: "d", MessageSize: 1024, Topics: 1, Partitions: 16, ProducersPerTopic: 2, ConsumersPerTopic: 3}
	r.add(period(t), 1_000_000)
	r.add(worker.Period{Period: load.Period{Latencies: load.NewLatencies(), Elapsed: time.Second}}, 0)
	few := load.NewLatencies()
	for _, v := range []int64{1500, 2500} {
		require.NoError(t, few.Publish.RecordValue(v))
		require.NoError(t, few.PublishDelay.RecordValue(v))
		require.NoError(t, few.EndToEnd.RecordValue(v*1000))
	}
	r.aggregate(few)
	return r
}

// fields are the names of the framework's result file, in its order.
func fields() []string {
	figures := []string{"Avg", "50pct", "75pct", "95pct", "99pct", "999pct", "9999pct", "Max"}
	names := []string{
		"workload", "driver", "messageSize", "topics", "partitions", "producersPerTopic", "consumersPerTopic",
		"publishRate", "publishErrorRate", "consumeRate", "backlog",
	}
	for _, group := range []string{"publishLatency", "publishDelayLatency", "aggregatedPublishLatency", "aggregatedPublishDelayLatency"} {
		for _, f := range figures {
			names = append(names, group+f)
		}
	}
	names = append(names, "aggregatedPublishLatencyQuantiles", "aggregatedPublishDelayLatencyQuantiles")
	for _, f := range figures {
		names = append(names, "endToEndLatency"+f)
	}
	names = append(names, "aggregatedEndToEndLatencyQuantiles")
	for _, f := range figures {
		names = append(names, "aggregatedEndToEndLatency"+f)
	}
	return names
}

func TestResult_FieldsAndOrder(t *testing.T) {
	r := result(t)
	content, err := r.Encode()
	require.NoError(t, err)
	golden(t, "result.json", string(content))
	decoder := json.NewDecoder(bytes.NewReader(content))
	_, err = decoder.Token() // the brace
	require.NoError(t, err)
	var names []string
	for decoder.More() {
		name, err := decoder.Token()
		require.NoError(t, err)
		names = append(names, name.(string))
		var value json.RawMessage
		require.NoError(t, decoder.Decode(&value))
		require.NotEqual(t, "null", string(value), name)
	}
	require.Equal(t, fields(), names)
}

func TestReadResult(t *testing.T) {
	r := result(t)
	path := filepath.Join(t.TempDir(), "r.json")
	require.NoError(t, r.WriteFile(path))
	back, err := ReadResult(path)
	require.NoError(t, err)
	require.Equal(t, r, back)
	for _, text := range []string{"{}", "[", `{"workload": "x"}`} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err = ReadResult(path)
		require.ErrorIs(t, err, ErrNoResult)
	}
}

func TestFileName(t *testing.T) {
	end := time.Date(2026, 11, 2, 3, 4, 5, 0, time.UTC)
	require.Equal(t, "1-topic-Kafka-2026-11-02-03-04-05.json", FileName(Stem("workloads/1-topic.yaml"), "Kafka", end))
}

// The bar goes elsewhere than the lines, and moves; without one nothing is drawn.
func TestConsole_Progress(t *testing.T) {
	var out, bar strings.Builder
	c := console{out: &out, progress: &bar}
	for name, length := range map[string]time.Duration{"warm-up": 10 * time.Second, "without end": 0, "short": time.Millisecond} {
		c.begin(name, length)
		c.reach(5 * time.Second)
		c.say("line of %s", name)
		c.reach(time.Hour)
		c.end()
		c.end()
		require.Contains(t, bar.String(), name)
		require.Contains(t, out.String(), "line of "+name+"\n")
	}
	require.Contains(t, bar.String(), " 50% ")
	require.NotContains(t, out.String(), "%")
	silent := console{out: &out}
	silent.begin("x", time.Second)
	silent.reach(time.Second)
	silent.end()
}
