package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/program"
)

func TestCompare_RefusesBadFlagsAtOnce(t *testing.T) {
	code, _, errs := command(t, nil, "compare", "--rounds", "1000", "--duration", "1s", "-o", t.TempDir())
	require.Equal(t, program.ExitUsage, code)
	require.Contains(t, errs, "rounds 1000: want 1 to 100")
	require.Contains(t, errs, "duration 1s: want at least 5s")

	code, _, errs = command(t, nil, "compare", "--s3-latency", "moon")
	require.Equal(t, program.ExitUsage, code)
	require.Contains(t, errs, "want one of none, s3-standard, s3-express")
}
