package lint

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "lower the recorded counts in testdata; never raises one")

// ratchet fails if a package has more hits than its count in the file of counts. The file has sorted lines "package count"; a
// package without a line may have no hits. With -update, lower counts are recorded. If a package moves, its line moves with it,
// by hand.
func ratchet(t *testing.T, file, name string, hits map[string][]string) {
	t.Helper()
	recorded := readCounts(t, file)
	for _, pkg := range slices.Sorted(maps.Keys(hits)) {
		if found := hits[pkg]; len(found) > recorded[pkg] {
			t.Errorf("%s: %d %s, at most %d allowed. Rewrite the ones that the change added:\n\t%s",
				pkg, len(found), name, recorded[pkg], strings.Join(found, "\n\t"))
		}
	}
	if *update {
		for pkg := range recorded {
			recorded[pkg] = min(recorded[pkg], len(hits[pkg]))
		}
		writeCounts(t, file, recorded)
	}
}

func readCounts(t *testing.T, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	counts := map[string]int{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var pkg string
		var count int
		_, err := fmt.Sscanf(lines.Text(), "%s %d", &pkg, &count)
		require.NoError(t, err, "%s: line %q", file, lines.Text())
		counts[pkg] = count
	}
	return counts
}

func writeCounts(t *testing.T, file string, counts map[string]int) {
	t.Helper()
	var out strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(counts)) {
		if counts[pkg] > 0 {
			fmt.Fprintln(&out, pkg, counts[pkg])
		}
	}
	require.NoError(t, os.WriteFile(file, []byte(out.String()), 0o600))
}
