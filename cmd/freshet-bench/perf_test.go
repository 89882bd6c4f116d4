package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/workloads"
	"github.com/freshet-io/freshet/internal/program"
)

func TestWorkloads_ListShowExport(t *testing.T) {
	code, out, errs := command(t, nil, "workloads", "list")
	require.Equal(t, program.ExitOK, code, errs)
	require.Equal(t, len(workloads.All()), strings.Count(out, "\n"))
	require.Contains(t, out, "automq-catch-up-read ")

	code, out, errs = command(t, nil, "workloads", "show", "azure-1g")
	require.Equal(t, program.ExitOK, code, errs)
	require.Contains(t, out, "\nproducerRate: 16640\n")

	code, out, errs = command(t, nil, "workloads", "show", "azure-1g", "--scale", "0.5", "--duration", "1h")
	require.Equal(t, program.ExitOK, code, errs)
	require.Contains(t, out, "\n# producerRate: 16640 -> 8320\n")
	require.Contains(t, out, "\nproducerRate: 8320\n")

	code, _, errs = command(t, nil, "workloads", "show", "azure")
	require.Equal(t, program.ExitUsage, code)
	require.Contains(t, errs, "unknown workload azure, want some of")

	dir := filepath.Join(t.TempDir(), "files")
	code, _, errs = command(t, nil, "workloads", "export", dir)
	require.Equal(t, program.ExitOK, code, errs)
	text, err := os.ReadFile(filepath.Join(dir, "drivers", "azure.yaml"))
	require.NoError(t, err)
	require.Contains(t, string(text), "fetch.max.wait.ms=1000")
	code, _, errs = command(t, nil, "workloads", "export", dir)
	require.Equal(t, program.ExitFailed, code)
	require.Contains(t, errs, "overwrites nothing")
}

// TestPerf_Options: lists as AutoMQ's tool takes them, several faults at once, and scaling before they are checked.
func TestPerf_Options(t *testing.T) {
	code, _, errs := command(t, nil, "perf", "-P", "batch.size=0", "linger.ms=5", "-t", "0", "-b", "20")
	require.Equal(t, program.ExitUsage, code)
	require.Contains(t, errs, "--topics must be above 0, not 0")
	require.Contains(t, errs, "--backlog-duration must be 0 or at least 5m0s, not 20s")

	code, _, errs = command(t, nil, "perf", "-b", "600", "--scale", "0.01", "--duration", "10s", "-P", "linger.ms=soon")
	require.Equal(t, program.ExitFailed, code)
	require.Contains(t, errs, "linger.ms")
}

func TestMatrix_Faults(t *testing.T) {
	code, _, errs := command(t, nil, "matrix", "--only", "vanity", "--duration", "1s")
	require.Equal(t, program.ExitUsage, code)
	require.Contains(t, errs, "unknown workload vanity")
	require.Contains(t, errs, "duration is 1s")
	code, _, errs = command(t, nil, "matrix", "--observe", "x")
	require.Equal(t, program.ExitUsage, code)
	require.Contains(t, errs, "x")
	code, _, errs = command(t, nil, "matrix", "--common-config-file", "nowhere")
	require.Equal(t, program.ExitFailed, code)
	require.Contains(t, errs, "nowhere")
}
