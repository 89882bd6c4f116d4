package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/observe"
	"github.com/freshet-io/freshet/bench/omb"
	"github.com/freshet-io/freshet/bench/perf"
	"github.com/freshet-io/freshet/bench/report"
)

// A file as the OpenMessaging Benchmark writes it gives the same figures, in milliseconds.
func TestLoad_OpenMessagingBenchmark(t *testing.T) {
	run, err := report.Load(filepath.Join("testdata", "omb.json"), 0)
	require.NoError(t, err)
	require.Equal(t, "omb", run.Name)
	f := run.Figures
	require.Equal(t, "warpstream-vanity", f.Workload)
	require.Equal(t, "Kafka", f.Driver)
	require.InDelta(t, 1024, f.MessageBytes, 0)
	require.Equal(t, []float64{10, 20, 30}, f.Seconds)
	require.Equal(t, []float64{20000, 19900, 20100}, f.PublishRate)
	require.Equal(t, []float64{19000, 20500, 20000}, f.ConsumeRate)
	require.Equal(t, []float64{0, 120, 0}, f.Backlog, "a backlog below zero is none")
	require.Equal(t, report.Latency{Avg: 12, P50: 10, P75: 14, P95: 25, P99: 40, P999: 70, P9999: 80, Max: 81}, f.Publish[1])
	require.InDelta(t, 0.05, f.PublishDelay[0].P50, 1e-12, "microseconds become milliseconds")
	require.Equal(t, report.Latency{Avg: 14, P50: 12, P75: 16, P95: 28, P99: 45, P999: 75, P9999: 90, Max: 95}, f.EndToEndTotal)
	require.InDelta(t, 20000, f.MeanPublishRate(), 1e-9)
	require.InDelta(t, 20000*30*1024/float64(1<<30), f.GiB(), 1e-9)
	require.Contains(t, run.Settings, report.Setting{Name: "partitions", Effective: "288"})
	require.Nil(t, run.Observed)

	run, err = report.Load(filepath.Join("testdata", "omb.json"), time.Second)
	require.NoError(t, err)
	require.Equal(t, []float64{1, 2, 3}, run.Figures.Seconds)
}

func TestLoad_PerformanceTest(t *testing.T) {
	run, err := report.Load(filepath.Join("testdata", "perf.json"), 0)
	require.NoError(t, err)
	f := run.Figures
	require.Equal(t, []float64{1.0005, 2.0007}, f.Seconds)
	require.InDelta(t, 52224, f.MessageBytes, 1e-6)
	require.InDelta(t, 4.5, f.Publish[0].P99, 1e-12)
	require.InDelta(t, 6.25, f.EndToEndTotal.Max, 1e-12)
	require.Contains(t, run.Settings, report.Setting{Name: "recordSize", Effective: "52224"})
	require.Contains(t, run.Settings, report.Setting{Name: "topicPrefix", Effective: "test_topic"})
	for _, s := range run.Settings {
		require.NotEqual(t, "null", s.Effective, s.Name)
	}
}

// What this project's own tools write is read: every field that is needed has the name they give it.
func TestLoad_OwnResults(t *testing.T) {
	ombPath, perfPath := filepath.Join(t.TempDir(), "run.json"), filepath.Join(t.TempDir(), "perf.json")
	one, whole := []float64{1}, []int64{1}
	result := omb.Result{
		Workload: "w", MessageSize: 1, PublishRate: one, PublishErrorRate: one, ConsumeRate: one, Backlog: whole,
		PublishLatencyAvg: one, PublishLatency50pct: one, PublishLatency75pct: one, PublishLatency95pct: one,
		PublishLatency99pct: one, PublishLatency999pct: one, PublishLatency9999pct: one, PublishLatencyMax: one,
		PublishDelayLatencyAvg: one, PublishDelayLatency50pct: whole, PublishDelayLatency75pct: whole, PublishDelayLatency95pct: whole,
		PublishDelayLatency99pct: whole, PublishDelayLatency999pct: whole, PublishDelayLatency9999pct: whole, PublishDelayLatencyMax: whole,
		EndToEndLatencyAvg: one, EndToEndLatency50pct: one, EndToEndLatency75pct: one, EndToEndLatency95pct: one,
		EndToEndLatency99pct: one, EndToEndLatency999pct: one, EndToEndLatency9999pct: one, EndToEndLatencyMax: one,
	}
	require.NoError(t, result.WriteFile(ombPath))
	run, err := report.Load(ombPath, 0)
	require.NoError(t, err)
	require.Len(t, run.Figures.Publish, 1)

	data, err := json.Marshal(perf.Result{})
	require.NoError(t, err)
	text := strings.NewReplacer("null", "[]").Replace(string(data))
	require.NoError(t, os.WriteFile(perfPath, []byte(text), 0o600))
	_, err = report.Load(perfPath, 0)
	require.NoError(t, err)
}

func TestLoad_TakesWhatIsBeside(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "my result (1).json")
	data, err := os.ReadFile(filepath.Join("testdata", "omb.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	notes := report.Notes{Title: "Vanity", PeriodSeconds: 2, Settings: []report.Setting{{Name: "rate", Original: "1000000", Effective: "20000"}}, Warnings: []string{"hot client"}}
	require.NoError(t, report.WriteNotes(path, notes))
	series := observe.Series{Start: time.Unix(1, 0).UTC(), Targets: []observe.History{{Name: "agent"}}, Warnings: []string{"agent: gone"}}
	require.NoError(t, series.WriteFile(observe.PathFor(path)))

	run, err := report.Load(path, 0)
	require.NoError(t, err)
	require.Equal(t, "my-result-1", run.Name)
	require.Equal(t, "Vanity", run.Title)
	require.Equal(t, []float64{2, 4, 6}, run.Figures.Seconds)
	require.Equal(t, notes.Settings, run.Settings)
	require.Equal(t, []string{"hot client", "agent: gone"}, run.AllWarnings())
	require.Equal(t, &series, run.Observed)

	require.NoError(t, os.WriteFile(observe.PathFor(path), []byte(`{"start":1}`), 0o600))
	_, err = report.Load(path, 0)
	require.ErrorContains(t, err, observe.PathFor(path))
	require.NoError(t, os.WriteFile(report.NotesPath(path), []byte(`{"period_seconds":"x"}`), 0o600))
	_, err = report.Load(path, 0)
	require.ErrorContains(t, err, "period_seconds")
}

func TestLoadAll_TellsSameNamesApart(t *testing.T) {
	path := filepath.Join("testdata", "omb.json")
	runs, err := report.LoadAll([]string{path, "omb.notes.json", path, "omb.observed.json", path}, 0)
	require.NoError(t, err)
	require.Len(t, runs, 3, "what is beside results is left out")
	require.Equal(t, []string{"omb", "omb-2", "omb-3"}, []string{runs[0].Name, runs[1].Name, runs[2].Name})
}

// Broken files are refused with the file and the field.
func TestLoad_NamesFileAndField(t *testing.T) {
	for _, c := range []struct{ name, file, field, value, want string }{
		{"wrong type", "omb.json", "publishRate", `["fast"]`, "field publishRate: want a list of numbers"},
		{"not a list", "omb.json", "consumeRate", `7`, "field consumeRate: want a list of numbers"},
		{"missing", "omb.json", "endToEndLatency99pct", "", "field endToEndLatency99pct: missing"},
		{"too short", "omb.json", "publishLatencyMax", `[1,2]`, "field publishLatencyMax: 2 values for 3 periods"},
		{"too long", "omb.json", "backlog", `[1,2,3,4]`, "field backlog: 4 values for 3 periods"},
		{"negative", "omb.json", "publishLatency50pct", `[1,-2,3]`, "field publishLatency50pct: value 2 is -2: want a number that is not negative"},
		{"negative scalar", "omb.json", "messageSize", `-1`, "field messageSize: -1: want a number that is not negative"},
		{"text for a number", "omb.json", "aggregatedPublishLatencyMax", `"NaN"`, "field aggregatedPublishLatencyMax: want a number"},
		{"number for a text", "omb.json", "workload", `1`, "field workload: want a string"},
		{"time goes back", "perf.json", "timeSecs", `[2,1]`, "field Seconds: value 2, 1, does not follow 2"},
		{"missing total", "perf.json", "produceRateTotal", "", "field produceRateTotal: missing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := changed(t, c.file, c.field, c.value)
			_, err := report.Load(path, 0)
			require.ErrorContains(t, err, path)
			require.ErrorContains(t, err, c.want)
		})
	}
	t.Run("neither format", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.json")
		require.NoError(t, os.WriteFile(path, []byte(`{"rate": 1}`), 0o600))
		_, err := report.Load(path, 0)
		require.ErrorIs(t, err, report.ErrFormat)
	})
	t.Run("not JSON", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.json")
		require.NoError(t, os.WriteFile(path, []byte("workload: x"), 0o600))
		_, err := report.Load(path, 0)
		require.ErrorContains(t, err, path+": not a JSON object")
	})
	t.Run("no file", func(t *testing.T) {
		_, err := report.Load("nowhere.json", 0)
		require.ErrorIs(t, err, os.ErrNotExist)
		require.ErrorContains(t, err, "nowhere.json")
	})
}

// changed copies a file of testdata with one field changed, or left out if value is empty.
func changed(t *testing.T, file, field, value string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", file))
	require.NoError(t, err)
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(data, &fields))
	require.Contains(t, fields, field)
	if value == "" {
		delete(fields, field)
	} else {
		fields[field] = json.RawMessage(value)
	}
	data, err = json.Marshal(fields)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), file)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	return path
}
