package lint

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// phraseCounts has the allowed number of phrases per package.
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
	ratchet(t, phraseCounts, "discouraged phrases", phraseHits(t))
}

// phraseHits returns one line per hit, by package. The files that have to name the phrases are excluded.
func phraseHits(t *testing.T) map[string][]string {
	t.Helper()
	hits := map[string][]string{}
	for _, s := range sources(t) {
		if s.path == "internal/lint/prose_test.go" || s.path == "internal/lint/pronouns_test.go" {
			continue
		}
		for i, line := range strings.Split(s.text, "\n") {
			for _, p := range phrases {
				for _, m := range p.pattern.FindAllString(line, -1) {
					hits[s.pkg()] = append(hits[s.pkg()], fmt.Sprintf("%s:%d: %q: write %s", s.path, i+1, m, p.write))
				}
			}
		}
	}
	return hits
}
