package lint

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// pronounCounts has the allowed number of comment sentences per package in which a pronoun stands for a component.
const pronounCounts = "testdata/pronouns.txt"

// maxKept is the number of changed lines up to which a file may keep such sentences.
const maxKept = 20

var (
	// pronoun matches a word that a comment can use for a component, a caller or a request. The noun belongs there: "the
	// writer that holds the slot" for its pronoun, "expired bundles" for a clause with "what".
	pronoun = regexp.MustCompile(`(?i)\b(?:who|nobody|somebody|anybody|everybody|those (?:that|who|which)|what (?:is|was|are|were|has|had))\b`)
	// sentenceEnd matches the end of a sentence, of a paragraph or of a list item.
	sentenceEnd = regexp.MustCompile(`[.:;!?]\s+|\n\s*\n|\n\s*[-*]`)
)

// TestPronouns fails if a package has more sentences with such pronouns in its comments than its recorded count.
// With -update, lower counts are recorded.
func TestPronouns(t *testing.T) {
	hits := map[string][]string{}
	for _, s := range sources(t) {
		hits[s.pkg()] = append(hits[s.pkg()], pronounHits(s)...)
	}
	ratchet(t, pronounCounts, "comment sentences with a pronoun for a component", hits)
}

// TestPronouns_OfChangedFiles fails if a file that differs from main by over 20 lines still has such a sentence.
func TestPronouns_OfChangedFiles(t *testing.T) {
	changed := changedLines(t)
	for _, s := range sources(t) {
		if hits := pronounHits(s); changed[s.path] > maxKept && len(hits) > 0 {
			t.Errorf("%s: %d changed lines, so its comments name components by nouns. Rewrite:\n\t%s",
				s.path, changed[s.path], strings.Join(hits, "\n\t"))
		}
	}
}

func TestPronouns_Sentences(t *testing.T) {
	for text, want := range map[string]int{
		"The writer seals the bundle. Nobody waits; who asks is refused.": 2,
		"Commit returns what was written, and who\nasked for it":          1,
		"Somewhat is what isolates them.":                                 0,
		"It evicts those\nthat are expired":                               1,
	} {
		require.Len(t, pronounSentences(text), want, text)
	}
}

// pronounHits returns one line per sentence of the file's comments that has such a pronoun.
func pronounHits(s source) (hits []string) {
	for _, group := range s.file.Comments {
		for _, sentence := range pronounSentences(group.Text()) {
			hits = append(hits, fmt.Sprintf("%s:%d: %q", s.path, s.fset.Position(group.Pos()).Line, sentence))
		}
	}
	return hits
}

func pronounSentences(text string) (found []string) {
	for _, sentence := range sentenceEnd.Split(text, -1) {
		if sentence = strings.Join(strings.Fields(sentence), " "); pronoun.MatchString(sentence) {
			found = append(found, sentence)
		}
	}
	return found
}

// changedLines returns the lines that the working tree adds to or removes from each file, the larger of the two, since main.
func changedLines(t *testing.T) map[string]int {
	t.Helper()
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", append([]string{"-C", root}, args...)...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("git %s: %w: %s", args[0], err, stderr.String())
		}
		return strings.TrimSpace(string(out)), err
	}
	base := ""
	for _, main := range []string{"main", "origin/main"} {
		if found, err := git("merge-base", "HEAD", main); err == nil {
			base = found
			break
		}
	}
	if base == "" {
		t.Skip("no git history with a branch main: changes are unknown")
	}
	out, err := git("diff", "--numstat", "--no-renames", base)
	require.NoError(t, err)
	changed := map[string]int{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		require.Len(t, fields, 3, line)
		added, _ := strconv.Atoi(fields[0]) // "-" for binary files
		removed, _ := strconv.Atoi(fields[1])
		changed[filepath.FromSlash(fields[2])] = max(added, removed)
	}
	return changed
}
