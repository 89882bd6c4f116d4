package perf

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/load"
)

var update = flag.Bool("update", false, "write golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

// measured is two seconds with 1,000 messages of 1 KiB in and twice as many out, latencies of 1 to 1,000 ms.
func measured() load.Period {
	p := load.Period{
		Counters: load.Counters{Sent: 1000, Failed: 3, BytesSent: 1000 << 10, Received: 2000, BytesReceived: 2000 << 10},
		Elapsed:  2 * time.Second, Latencies: load.Latencies{Publish: hdrhistogram.New(1, 1e7, 3), EndToEnd: hdrhistogram.New(1, 1e7, 3)},
	}
	p.Totals = p.Counters
	for ms := range int64(1000) {
		_ = p.Latencies.Publish.RecordValue((ms + 1) * 1000)
		_ = p.Latencies.EndToEnd.RecordValue((ms + 1) * 2000)
	}
	return p
}

func TestLines_Golden(t *testing.T) {
	m := measured()
	p := newPeriod(m, 12_345)
	sum := newTotals(m.Counters, m.Latencies, 2)
	none := newPeriod(load.Period{Elapsed: time.Second, Latencies: load.NewLatencies()}, 0)
	wide := newTotals(load.Counters{Sent: 9e9, BytesSent: 9e12, Received: 9e9, BytesReceived: 9e12}, m.Latencies, 3600)
	golden(t, "lines.txt", strings.Join([]string{
		periodLine(61.23, p), periodLine(1, none), summaryLine(sum), summaryLine(wide),
	}, "\n")+"\n")
}

func TestResult_Golden(t *testing.T) {
	m := measured()
	c := DefaultConfig()
	c.TopicPrefix, c.Warmup = "x", 90*time.Second
	c.ApplyDefaults()
	r := Result{Config: c.settings(nil), StartMs: 1_700_000_000_000}
	r.addPeriod(2, newPeriod(m, 12_345))
	all := newTotals(m.Counters, m.Latencies, 2)
	all.produceQuantiles, all.endToEndQuantiles = Quantiles{{0, 1000}, {50, 500_223}, {100, 1_000_447}}, Quantiles{{99.9, 1}}
	r.setTotals(all)
	path, err := r.Write(t.TempDir(), time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	require.NoError(t, err)
	require.Equal(t, "perf-2026-01-02-03-04-05.json", filepath.Base(path))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	golden(t, "result.json", string(content))
	var again Result
	require.NoError(t, json.Unmarshal(content, &again))
	require.Equal(t, r, again)
}

func TestQuantiles_RiseToTheLongest(t *testing.T) {
	q := quantilesOf(measured().Latencies.Publish)
	require.Greater(t, len(q), 100)
	for i := 1; i < len(q); i++ {
		require.Greater(t, q[i].Percent, q[i-1].Percent)
		require.GreaterOrEqual(t, q[i].Micros, q[i-1].Micros)
	}
	require.Equal(t, 100.0, q[len(q)-1].Percent)
	require.InEpsilon(t, 1_000_000, q[len(q)-1].Micros, 1e-2)
	require.Empty(t, quantilesOf(load.NewLatencies().Publish))
}
