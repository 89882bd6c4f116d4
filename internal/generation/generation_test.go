package generation_test

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/generation"
)

func TestCheck(t *testing.T) {
	require.NoError(t, generation.Check(generation.Number))
	err := generation.Check(generation.Number + 1)
	require.ErrorIs(t, err, generation.ErrOther)
	require.ErrorContains(t, err, fmt.Sprintf("another generation: it is %d, this program reads %d: run the program that wrote it",
		generation.Number+1, generation.Number))
}

var update = flag.Bool("update", false, "write testdata/golden anew: only where generation.Number has risen, or golden files were added")

// formats are the golden files of everything that is stored.
var formats = []string{
	"metadata/testdata/*.hex", "metadata/testdata/*.golden", "metadata/testdata/commands*", "metadata/testdata/records*",
	"metadata/*/testdata/*.golden", "objstore/bundle/testdata/*.hex", "objstore/*/testdata/*.golden",
}

// Golden files of stored formats never change within a generation. testdata/golden has the generation and the SHA-256 of each.
func TestGolden_StaysWithinAGeneration(t *testing.T) {
	const record = "testdata/golden"
	now := map[string]string{}
	for _, pattern := range formats {
		files, err := filepath.Glob(filepath.Join("..", "..", pattern))
		require.NoError(t, err)
		require.NotEmpty(t, files, pattern)
		for _, file := range files {
			if name := strings.TrimPrefix(filepath.ToSlash(file), "../../"); !strings.HasSuffix(name, "/metrics.golden") {
				content, err := os.ReadFile(file)
				require.NoError(t, err)
				now[name] = fmt.Sprintf("%x", sha256.Sum256(content))
			}
		}
	}
	content, err := os.ReadFile(record)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	recorded := fmt.Sprintf("generation %d", generation.Number)
	same := lines[0] == recorded
	for _, line := range lines[1:] {
		sum, name, _ := strings.Cut(line, "  ")
		if same {
			require.Equal(t, sum, now[name], "%s has changed: a changed format raises generation.Number, an unchanged one keeps its golden file", name)
		}
	}
	var names []string
	for name := range now {
		names = append(names, name)
	}
	slices.Sort(names)
	want := recorded + "\n"
	for _, name := range names {
		want += now[name] + "  " + name + "\n"
	}
	if *update {
		require.NoError(t, os.WriteFile(record, []byte(want), 0o644))
		return
	}
	require.Equal(t, want, string(content), "go test ./internal/generation -update writes %s anew", record)
}
