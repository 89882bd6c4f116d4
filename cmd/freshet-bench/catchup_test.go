package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/process"
	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/internal/program"
	"github.com/freshet-io/freshet/test/harness"
)

// One small pair of turns through real processes: the groups read all of a compacted backlog, and the report is whole.
func TestCatchup_OneSmallPair(t *testing.T) {
	nightly.Only(t, "runs a benchmark with processes for 16 s")
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
		"catchup", "--backlog", "16MiB", "--rate", "1MiB", "--gap", "200ms", "--pairs", "1", "--duration", "2s",
		"--warm-up", "200ms", "--partitions", "2", "--model", "s3-express", "--compact-after", "2s", "--memory", "256MiB",
	})
	require.Equal(t, program.ExitOK, code, "%s%s", &out, &errs)
	t.Log(out.String())
	require.Regexp(t, `pair 1 with .* catch-up +[1-9]\d*\.\d MiB/s .* GETs [1-9]\d*, [1-9]\d* MiB\n`, out.String())
	for _, name := range []string{
		"catchup_over_produce_rate", "produce_p99_ratio", "tail_p99_ratio", "cpu_share", "gets_over_backlog_units",
	} {
		require.Regexp(t, `(?m)^`+name+` +\d+\.\d\d  \(`, out.String())
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "freshet-bench-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
