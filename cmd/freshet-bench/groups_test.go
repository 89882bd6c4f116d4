package main

import (
	"context"
	"os"
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

// A few groups and connections: the report is complete, and members heartbeat as often as they are to.
func TestGroups_AFew(t *testing.T) {
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
		"groups", "--groups", "4", "--members", "3", "--lane", "2", "--interval", "100ms", "--connections", "20",
		"--duration", "1s", "--settle", "100ms",
	})
	require.Equal(t, program.ExitOK, code, "%s%s", &out, &errs)
	t.Log(out.String())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	for i, name := range []string{
		"idle_connections_mib", "idle_connections_growth_mib", "idle_connections_cpu_percent", "heartbeats_per_second", "heartbeats_owner_cpu_percent",
	} {
		got, value, ok := strings.Cut(lines[len(lines)-5+i], " ")
		require.True(t, ok)
		require.Equal(t, name, got)
		_, err := strconv.ParseFloat(value, 64)
		require.NoError(t, err)
	}
	require.Contains(t, out.String(), "(120 asked for)")
}
