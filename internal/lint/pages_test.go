package lint

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// eachText calls fn for each file with one of the extensions. The path is relative to the module.
func eachText(t *testing.T, fn func(path, text string), extensions ...string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if skipped(path, d) {
			return filepath.SkipDir
		}
		if d.IsDir() || !slices.Contains(extensions, filepath.Ext(path)) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		fn(filepath.ToSlash(rel), string(text))
		return err
	}))
}

// citation matches references to a design document that is not in the tree, by file name or section number. A package's
// DESIGN.md may be cited.
var citation = regexp.MustCompile(`\bdesign(?:\.md)? [0-9]|\bdesign\.md`)

func TestCitations(t *testing.T) {
	eachText(t, func(path, text string) {
		if strings.HasPrefix(path, "bench/results/") {
			return // records of measurements keep their wording
		}
		for i, line := range strings.Split(text, "\n") {
			if m := citation.FindString(line); m != "" {
				t.Errorf("%s:%d: %q is not in the tree: cite a promise (I1 to I10) or a heading of ARCHITECTURE.md", path, i+1, m)
			}
		}
	}, ".go", ".md", ".yml", ".yaml")
}

var link = regexp.MustCompile(`\]\(([^)\s#]+)(?:#[^)\s]*)?\)`)

// TestLinks fails if a relative link in Markdown names a missing file. It does not check anchors.
func TestLinks(t *testing.T) {
	eachText(t, func(path, text string) {
		fenced := false
		for i, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				fenced = !fenced
			}
			if fenced {
				continue
			}
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], ":") {
					continue // another site
				}
				if _, err := os.Stat(filepath.Join(root, filepath.Dir(path), m[1])); err != nil {
					t.Errorf("%s:%d: link to a file that does not exist: %s", path, i+1, m[1])
				}
			}
		}
	}, ".md")
}

var testName = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9_]*)`")

// TestDocs_NameTests fails if a page of docs names a test that does not exist.
func TestDocs_NameTests(t *testing.T) {
	var tests strings.Builder
	eachText(t, func(path, text string) {
		if strings.HasSuffix(path, "_test.go") {
			tests.WriteString(text)
		}
	}, ".go")
	eachText(t, func(path, text string) {
		for _, name := range testName.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(path, "docs/") && !strings.Contains(tests.String(), "func "+name[1]+"(") {
				t.Errorf("%s: no test %s", path, name[1])
			}
		}
	}, ".md")
}

// TestDocs_IndexIsComplete fails if docs/README.md does not link to a page of docs.
func TestDocs_IndexIsComplete(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(root, "docs", "README.md"))
	require.NoError(t, err)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" {
			require.Contains(t, string(index), "("+name, "docs/README.md")
		}
	}
}
