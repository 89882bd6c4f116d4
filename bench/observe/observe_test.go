package observe

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// metricsServer serves counters that grow by 10 puts and half a CPU second with each look, and tells of each.
func metricsServer(t *testing.T) (url string, looks <-chan struct{}) {
	t.Helper()
	seen := make(chan struct{}, 1000)
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		i := n.Add(1)
		fmt.Fprintf(w, "# TYPE freshet_objstore_requests_total counter\n")
		fmt.Fprintf(w, "freshet_objstore_requests_total{operation=\"put\"} %d\nfreshet_objstore_requests_total{operation=\"get\"} 7\n", i*10)
		fmt.Fprintf(w, "# TYPE freshet_objstore_bytes_total counter\nfreshet_objstore_bytes_total{operation=\"put\"} %d\n", i*1000)
		fmt.Fprintf(w, "process_cpu_seconds_total %g\nprocess_resident_memory_bytes %d\n", float64(i)/2, i<<20)
		seen <- struct{}{}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/metrics", seen
}

func ownClient(t *testing.T) *http.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func TestRun_SamplesMetricsUntilItsEnd(t *testing.T) {
	url, looks := metricsServer(t)
	stop, err := Start(t.Context(), Config{Targets: []Target{{Name: "agent", Metrics: url}}, Interval: 10 * time.Millisecond, Client: ownClient(t)})
	require.NoError(t, err)
	for range 4 {
		<-looks
	}
	series := stop()
	require.Empty(t, series.Warnings)
	require.Len(t, series.Targets, 1)
	history := series.Targets[0]
	require.GreaterOrEqual(t, len(history.Samples), 4)
	first, last := history.Samples[0], history.Samples[len(history.Samples)-1]
	require.InDelta(t, 10, first.Requests["put"], 0)
	require.InDelta(t, 1000, first.ObjectBytes["put"], 0)
	require.InDelta(t, 0.5, first.CPU, 0)
	require.EqualValues(t, 1<<20, first.ResidentBytes)
	use := history.Usage()
	require.InDelta(t, last.Requests["put"]-10, use.Requests["put"], 0)
	require.NotContains(t, use.Requests, "get", "an operation that was not used is left out")
	require.InDelta(t, last.At-first.At, use.Seconds, 1e-9)
	require.Equal(t, last.ResidentBytes, use.PeakBytes)
}

// The kernel's figures are taken for a process whose id is known, even if it tells others of itself.
func TestRun_KernelWinsOverMetrics(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("CPU time is read from /proc, which is not here")
	}
	url, _ := metricsServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the last sample is taken all the same
	series, err := Run(ctx, Config{Targets: []Target{{Name: "self", PID: os.Getpid(), Metrics: url}}, Client: ownClient(t)})
	require.NoError(t, err)
	require.Empty(t, series.Warnings)
	require.NotEmpty(t, series.Targets[0].Samples)
	sample := series.Targets[0].Samples[0]
	require.Greater(t, sample.ResidentBytes, int64(1<<20))
	require.GreaterOrEqual(t, sample.PeakBytes, sample.ResidentBytes)
	require.NotEmpty(t, sample.Requests)
}

func TestRun_UnreadableTargetIsOneWarning(t *testing.T) {
	down := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(down.Close)
	url, looks := metricsServer(t)
	stop, err := Start(t.Context(), Config{
		Targets:  []Target{{Name: "gone", Metrics: down.URL}, {Name: "there", Metrics: url}},
		Interval: 10 * time.Millisecond, Client: ownClient(t),
	})
	require.NoError(t, err)
	for range 3 {
		<-looks
	}
	series := stop()
	require.Equal(t, []string{"gone: ask for metrics: " + down.URL + " answered 404 Not Found"}, series.Warnings)
	require.Empty(t, series.Targets[0].Samples)
	require.GreaterOrEqual(t, len(series.Targets[1].Samples), 3)
}

func TestConfig_ValidateGivesAllFaults(t *testing.T) {
	_, err := Run(t.Context(), Config{Interval: time.Millisecond, Targets: []Target{{Name: "a", PID: 1}, {Name: "a", PID: 2}, {PID: 3}, {Name: "b"}}})
	for _, want := range []string{
		"interval 1ms: want at least 10ms", "target a: named twice", "a target has no name", "target b: want a process id or the URL of its metrics",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestParseTargets(t *testing.T) {
	targets, err := ParseTargets([]string{"agent=123", "s3=http://localhost:1/metrics", "agent=https://h:2/metrics"})
	require.NoError(t, err)
	require.Equal(t, []Target{{Name: "agent", PID: 123, Metrics: "https://h:2/metrics"}, {Name: "s3", Metrics: "http://localhost:1/metrics"}}, targets)

	_, err = ParseTargets([]string{"agent", "=1", "x=-3", "y=ftp://h/"})
	for _, want := range []string{`"agent": want NAME=PID or NAME=URL`, `"=1": want`, `"x=-3": want a process id`, `"y=ftp://h/": want a process id`} {
		require.ErrorContains(t, err, want)
	}
}

func TestSeries_WindowCutsExactly(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &Series{Start: start, Targets: []History{{Name: "agent", Apart: true, Samples: []Sample{
		{At: 0, CPU: 0, Requests: map[string]float64{"put": 0}},
		{At: 2, CPU: 4, ResidentBytes: 100, Requests: map[string]float64{"put": 10}},
		{At: 4, CPU: 6, ResidentBytes: 200, Requests: map[string]float64{"put": 30}},
		{At: 6, CPU: 6, ResidentBytes: 300, Requests: map[string]float64{"put": 30}},
	}}}}
	w := s.Window(start.Add(time.Second), start.Add(5*time.Second))
	require.Equal(t, start.Add(time.Second), w.Start)
	require.True(t, w.Targets[0].Apart)
	var times []float64
	for _, sample := range w.Targets[0].Samples {
		times = append(times, sample.At)
	}
	require.Equal(t, []float64{0, 1, 3, 4}, times)
	use := w.Targets[0].Usage()
	require.Equal(t, Usage{Seconds: 4, CPU: 4, PeakBytes: 250, Requests: map[string]float64{"put": 25}, ObjectBytes: map[string]float64{}}, use)

	outside := s.Window(start.Add(-time.Second), start.Add(time.Minute))
	require.Len(t, outside.Targets[0].Samples, 4, "nothing is made up beyond the samples")
	require.InDelta(t, 4, s.Targets[0].Samples[1].CPU, 0, "the original is as it was")
}

func TestSeries_FilesReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	require.Equal(t, filepath.Join(filepath.Dir(path), "r.observed.json"), PathFor(path))
	s := &Series{
		Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Warnings: []string{"w"},
		Targets: []History{{Name: "agent", Samples: []Sample{{At: 1, CPU: 2, ResidentBytes: 3, PeakBytes: 4, Requests: map[string]float64{"put": 5}}}}},
	}
	require.NoError(t, s.WriteFile(path))
	got, err := ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, s, got)
}

func TestReadFile_NamesFileAndField(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ name, content, want string }{
		{"type", `{"start":"2026-01-02T03:04:05Z","targets":[{"name":"a","samples":[{"cpu_seconds":"x"}]}]}`, "cpu_seconds"},
		{"order", `{"start":"2026-01-02T03:04:05Z","targets":[{"name":"a","samples":[{"at_seconds":2},{"at_seconds":1}]}]}`, "targets[0].samples[1].at_seconds: 1 does not follow 2"},
		{"start", `{"targets":[{"samples":[]}]}`, "start: missing\ntargets[0].name: missing"},
		{"json", `{`, "unexpected end of JSON"},
	} {
		path := filepath.Join(dir, c.name+".json")
		require.NoError(t, os.WriteFile(path, []byte(c.content), 0o600))
		_, err := ReadFile(path)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, c.want)
	}
	_, err := ReadFile(filepath.Join(dir, "nowhere.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
}
