package scale

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	runtimepprof "runtime/pprof"
	"testing"
	"time"

	"github.com/google/pprof/profile"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/edge"
	"github.com/freshet-io/freshet/bench/cluster"
	"github.com/freshet-io/freshet/bench/process"
)

func TestSpentOf(t *testing.T) {
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}}}
	for api, ms := range map[string]int64{
		"Metadata": 70, "connection": 20, "ApiVersions": 10, "Produce": 40, "Fetch": 50, "Heartbeat": 1, "": 2,
	} {
		s := &profile.Sample{Value: []int64{ms / 10, ms * 1e6}}
		if api != "" {
			s.Label = map[string][]string{edge.LabelKey: {api}}
		}
		p.Sample = append(p.Sample, s)
	}
	s, err := spentOf(p, 19.3)
	require.NoError(t, err)
	require.InDelta(t, 7, s.metadata, 1e-9)
	require.InDelta(t, 3, s.connections, 1e-9)
	require.InDelta(t, 9, s.records, 1e-9)
	require.InDelta(t, 0.3, s.other, 1e-9)

	p.SampleType[1].Type = "alloc_space"
	_, err = spentOf(p, 1)
	require.ErrorIs(t, err, errNoCPU)
}

// TestProfiling: a profile ends when it is told to, and holds what was used until then.
func TestProfiling(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(pprof.Profile))
	defer server.Close()
	a := &cluster.Agent{HTTP: server.Listener.Addr().String()}
	taking, err := startProfiles(t.Context(), []*cluster.Agent{a})
	require.NoError(t, err)
	defer taking.close()
	runtimepprof.Do(t.Context(), runtimepprof.Labels(edge.LabelKey, "Metadata"), func(context.Context) { burn(t, 0.1) })
	taken, err := taking.end(a)
	require.NoError(t, err)
	s, err := spentOf(taken, 1)
	require.NoError(t, err)
	require.Positive(t, s.metadata)
}

// burn uses that many CPU seconds.
func burn(t *testing.T, seconds float64) {
	t.Helper()
	own, deadline := process.Running(os.Getpid()), time.Now().Add(10*time.Second)
	before, err := own.CPU()
	if err != nil {
		t.Skip("CPU time is read from /proc, which is not here")
	}
	for used := 0.0; used < seconds; {
		sum := byte(0)
		for i := range 10_000_000 {
			sum ^= byte(i)
		}
		after, err := own.CPU()
		require.NoError(t, err)
		require.True(t, time.Now().Before(deadline), "no CPU time was counted (%d)", sum)
		used = after - before
	}
}
