package main

import (
	"flag"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/config/page"
)

//go:generate go test -run ^TestConfiguration_PageIsCurrent$ -count=1 . -args -update

var update = flag.Bool("update", false, "write docs/configuration.md anew")

// TestConfiguration_PageIsCurrent compares docs/configuration.md with the flags of the commands.
func TestConfiguration_PageIsCurrent(t *testing.T) {
	const file = "../../docs/configuration.md"
	want, err := page.Configuration(freshet().Root())
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644)) //nolint:gosec // a page of the source tree
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "docs/configuration.md is out of date: run make generate")
}
