package lint

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "lower the counts in testdata/phrases.txt; never raises one")

// phraseCounts has the allowed number of phrases per package, as sorted lines "package count". Packages without a line
// may have none. If a package moves, its line moves with it, by hand.
const phraseCounts = "testdata/phrases.txt"

// phrases lists discouraged wordings, each with its replacement.
var phrases = []struct {
	pattern *regexp.Regexp
	write   string
}{
	{phrase(`tells (?:whether|that|what|how)`), `"X reports whether ..." for a boolean, "X returns ..." for a value`},
	{phrase(`(?:is|are) told`), `"receives", "is called with", "is notified"`},
	{phrase(`gives (?:the|what|a)`), `"returns"; "has" for a field`},
	{phrase(`nobody`), `the case as it is: "nil means no limit"`},
	{phrase(`who (?:is|has|asks|waits)`), `the name of the component, caller or request`},
	{phrase(`what (?:is|was) (?:kept|waiting|to go)`), `the name of the thing: the cache, the backlog, expired bundles`},
	{phrase(`goOn|hurry|astray`), `a standard word: continue or resume, expedite, stale or misdirected`},
}

func phrase(words string) *regexp.Regexp { return regexp.MustCompile(`(?i)\b(?:` + words + `)\b`) }

// TestPhrases fails if a package has more phrases than its recorded count. With -update, lower counts are recorded.
func TestPhrases(t *testing.T) {
	recorded, hits := readCounts(t), phraseHits(t)
	for _, pkg := range slices.Sorted(maps.Keys(hits)) {
		if found := hits[pkg]; len(found) > recorded[pkg] {
			t.Errorf("%s: %d discouraged phrases, at most %d allowed. Rewrite those that the change added:\n\t%s",
				pkg, len(found), recorded[pkg], strings.Join(found, "\n\t"))
		}
	}
	if *update {
		for pkg := range recorded {
			recorded[pkg] = min(recorded[pkg], len(hits[pkg]))
		}
		writeCounts(t, recorded)
	}
}

// phraseHits returns one line per hit, by package. This file, which has to name the phrases, is left out.
func phraseHits(t *testing.T) map[string][]string {
	t.Helper()
	hits := map[string][]string{}
	for _, s := range sources(t) {
		if s.path == "internal/lint/prose_test.go" {
			continue
		}
		pkg := filepath.ToSlash(filepath.Dir(s.path))
		for i, line := range strings.Split(s.text, "\n") {
			for _, p := range phrases {
				for _, m := range p.pattern.FindAllString(line, -1) {
					hits[pkg] = append(hits[pkg], fmt.Sprintf("%s:%d: %q: write %s", s.path, i+1, m, p.write))
				}
			}
		}
	}
	return hits
}

func readCounts(t *testing.T) map[string]int {
	t.Helper()
	text, err := os.ReadFile(phraseCounts)
	require.NoError(t, err)
	counts := map[string]int{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		var pkg string
		var count int
		_, err := fmt.Sscanf(lines.Text(), "%s %d", &pkg, &count)
		require.NoError(t, err, "%s: line %q", phraseCounts, lines.Text())
		counts[pkg] = count
	}
	return counts
}

func writeCounts(t *testing.T, counts map[string]int) {
	t.Helper()
	var out strings.Builder
	for _, pkg := range slices.Sorted(maps.Keys(counts)) {
		if counts[pkg] > 0 {
			fmt.Fprintln(&out, pkg, counts[pkg])
		}
	}
	require.NoError(t, os.WriteFile(phraseCounts, []byte(out.String()), 0o600))
}
