package main

import (
	"context"
	"os"
	"path/filepath"
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

// One small round, with TLS and without: the report is complete, and its figures are of work that was done.
func TestCost_OneSmallRound(t *testing.T) {
	nightly.Only(t, "runs a benchmark with processes for 6 s")
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
	code := p.Run(ctx, []string{
		"cost", "--shapes", "C,A", "--rounds", "1", "--bytes", "32MiB", "--clients", "2", "--steady", "1s", "--steady-rate", "8MiB",
	})
	require.Equal(t, program.ExitOK, code, "%s%s", &out, &errs)
	t.Log(out.String())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, name := range []string{"produce_cpu_ratio ", "fetch_cpu_ratio "} {
		line := lines[len(lines)-2+i]
		ratio, err := strconv.ParseFloat(strings.TrimPrefix(line, name), 64)
		require.NoError(t, err, line)
		require.Positive(t, ratio)
	}
	require.Regexp(t, `PUTs of the produce rounds: [1-9]\d* for 0\.03 GiB; GETs of the fetch rounds: 0\n`, out.String(), "fetches were served from memory")
	require.Contains(t, out.String(), "shape C: A with TLS")
	require.Regexp(t, `peak memory [1-9]\d* MiB`, out.String())
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "freshet-bench-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
