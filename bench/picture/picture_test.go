package picture_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/bench/picture"
)

//go:generate go test -run ^TestDraw_PictureIsCurrent$ -count=1 . -args -update

var update = flag.Bool("update", false, "draw docs/cost-and-latency.svg anew")

// TestDraw_PictureIsCurrent compares the picture in docs with the bills and the measured latencies.
func TestDraw_PictureIsCurrent(t *testing.T) {
	const file = "../../docs/cost-and-latency.svg"
	results, err := os.ReadFile("../results/2026-11-22-latency.md")
	require.NoError(t, err)
	want, err := picture.Draw(string(results))
	require.NoError(t, err)
	for decoder := xml.NewDecoder(strings.NewReader(want)); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
	}
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o644)) //nolint:gosec // a picture of the source tree
	}
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, want, string(got), "docs/cost-and-latency.svg is out of date: run make generate")
}

// TestDraw_NamesAbsentResults: a page without a row of a setting is an error that names the setting.
func TestDraw_NamesAbsentResults(t *testing.T) {
	_, err := picture.Draw("")
	require.EqualError(t, err, "the results have no row for s3-standard with a PUT budget of 4")
}
