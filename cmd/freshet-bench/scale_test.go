package main

import (
	"context"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/process"
	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/internal/program"
	"github.com/freshet-io/freshet/test/harness"
)

// small runs one small benchmark and returns its output.
func small(t *testing.T, args ...string) string {
	t.Helper()
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("CPU time is read from /proc, which is not here")
	}
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv(process.FreshetVariable, harness.Freshet(t))
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, errs strings.Builder
	p := bench()
	p.Environ = os.Environ
	p.Streams.In, p.Streams.Out, p.Streams.Err = strings.NewReader(""), &out, &errs
	code := p.Run(ctx, args)
	require.Equal(t, program.ExitOK, code, "%s%s", &out, &errs)
	t.Log(out.String())
	return out.String()
}

// figure returns the value of the line "name value" in the output.
func figure(t *testing.T, printed, name string) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)`).FindStringSubmatch(printed)
	require.NotNil(t, found, name)
	value, err := strconv.ParseFloat(found[1], 64)
	require.NoError(t, err)
	return value
}

// A few batches: every record is one of its own, and each is counted. It is the one benchmark that each commit runs with
// real processes.
func TestBatches_AFew(t *testing.T) {
	if testing.Short() {
		t.Skip("starts etcd")
	}
	began := time.Now()
	out := small(t, "batches", "--producers", "4", "--partitions", "12", "--rate", "400", "--warm-up", "1s", "--duration", "2s", "--model", "s3-express")
	asked := 400 * time.Since(began).Seconds()
	require.Positive(t, figure(t, out, "batches_per_second"))
	require.Less(t, 2*figure(t, out, "batches_per_second"), asked, "what is late is made up for, and no more")
	require.Positive(t, figure(t, out, "log_bytes_per_batch"))
	require.GreaterOrEqual(t, figure(t, out, "owner_cores_per_100000_batches_per_second"), 0.0)
	records := regexp.MustCompile(`([0-9.]+) records a batch`).FindStringSubmatch(out)
	require.NotNil(t, records)
	each, err := strconv.ParseFloat(records[1], 64)
	require.NoError(t, err)
	require.InDelta(t, 1, each, 0.9, "they are counted at slightly different times")
}

// A few partitions and clients: an agent comes and one goes, and every client has its answer both times.
func TestScale_AFew(t *testing.T) {
	nightly.Only(t, "runs a benchmark with processes for 14 s")
	out := small(t, "scale", "--agents", "2", "--topics", "6", "--partitions", "5", "--clients", "30", "--fetchers", "10", "--rate", "100",
		"--duration", "1s", "--window", "500ms", "--settle", "200ms")
	require.Positive(t, figure(t, out, "owner_resident_mib"))
	figure(t, out, "all_cpu_seconds_beyond_steady_per_agent_and_change")
	figure(t, out, "produce_p99_growth_percent")
	require.Regexp(t, `(?m)^an agent comes +3 .* 30 +[0-9.]+ +[0-9.]+$`, out)
	require.Regexp(t, `(?m)^an agent goes +2 .* 30 +[0-9.]+ +[0-9.]+$`, out)
}

// A few virtual clusters: all are idle, and all have an owner again after each fault.
func TestTenants_AFew(t *testing.T) {
	nightly.Only(t, "runs a benchmark with processes for 40 s")
	out := small(t, "tenants", "--clusters", "5", "--loaded", "2", "--settle", "1s", "--duration", "2s")
	figure(t, out, "idle_goroutines_beside_streams")
	require.Positive(t, figure(t, out, "kill_all_owned_seconds"))
	require.Zero(t, figure(t, out, "sigterm_client_errors"))
}
