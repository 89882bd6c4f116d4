package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/program"
)

func TestReport_WritesThePage(t *testing.T) {
	results := filepath.Join("..", "..", "bench", "report", "testdata")
	dir := filepath.Join(t.TempDir(), "report")
	code, out, errs := command(t, nil, "report", filepath.Join(results, "omb.json"), filepath.Join(results, "perf.json"),
		"-o", dir, "--title", "Two results", "--period", "1s", "--dpi", "36")
	require.Equal(t, program.ExitOK, code, errs)
	require.Equal(t, filepath.Join(dir, "index.html")+"\n", out)
	page, err := os.ReadFile(filepath.Join(dir, "index.html"))
	require.NoError(t, err)
	require.Contains(t, string(page), "<h1>Two results</h1>")
	require.FileExists(t, filepath.Join(dir, "perf-end-to-end-latency.png"))
}

func TestReport_NamesFileAndField(t *testing.T) {
	path := filepath.Join(t.TempDir(), "broken.json")
	require.NoError(t, os.WriteFile(path, []byte(`{"publishRate": "fast"}`), 0o600))
	code, _, errs := command(t, nil, "report", path, "-o", t.TempDir())
	require.Equal(t, program.ExitFailed, code)
	require.Contains(t, errs, path+": field workload: missing")
	require.Contains(t, errs, "field publishRate: want a list of numbers")

	code, _, errs = command(t, nil, "report")
	require.Equal(t, program.ExitUsage, code)
	require.Contains(t, errs, "want result files")
}
