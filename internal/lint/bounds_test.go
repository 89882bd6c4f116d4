package lint

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	boundName   = regexp.MustCompile(`^(max|Max|most|Most)[A-Z]`)
	boundInPage = regexp.MustCompile("`([a-z0-9/]+)\\.([A-Za-z0-9_]+)`")
	// boundFolders matches the folders of code that clients reach.
	boundFolders = regexp.MustCompile(`^(agent|controlplane|metadata|kafkaproto|internal/(adminhttp|clientmetrics|connlimit|pattern))(/|$)`)
)

// limitColumns is the number of columns of a table of docs/limits.md. The last two name constants and tests.
const limitColumns = 6

// TestBounds_HaveTests checks that each row of docs/limits.md names a test, and that all tests and constants in it exist.
func TestBounds_HaveTests(t *testing.T) {
	declared := map[string]bool{}
	for _, s := range sources(t) {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasSuffix(s.path, "_test.go") {
				declared[s.pkg()+"."+f.Name.Name] = true
			}
		}
		for _, name := range constants(s) {
			declared[s.pkg()+"."+name] = true
		}
	}
	for _, row := range limitRows(t) {
		tests := boundInPage.FindAllStringSubmatch(row[limitColumns-1], -1)
		if len(tests) == 0 {
			t.Errorf("docs/limits.md: no test at the bound of %q", row[0])
		}
		for _, name := range append(tests, boundInPage.FindAllStringSubmatch(row[limitColumns-2], -1)...) {
			if !declared[name[1]+"."+name[2]] {
				t.Errorf("docs/limits.md: %q names %s.%s, which does not exist", row[0], name[1], name[2])
			}
		}
	}
}

// TestBounds_HaveRows checks that each constant with the name of a bound (max, most) is in docs/limits.md, or in testdata/bounds if no client
// reaches it. It checks neither figures nor bounds with other names.
func TestBounds_HaveRows(t *testing.T) {
	known := map[string]bool{}
	for _, row := range limitRows(t) {
		for _, name := range boundInPage.FindAllStringSubmatch(row[limitColumns-2], -1) {
			known[name[1]+"."+name[2]] = true
		}
	}
	text, err := os.ReadFile("testdata/bounds")
	require.NoError(t, err)
	others := map[string]bool{}
	for _, line := range strings.Split(string(text), "\n") {
		if line != "" && !strings.HasPrefix(line, "#") {
			require.False(t, known[line], "%s is in docs/limits.md", line)
			others[line] = true
		}
	}
	for _, s := range sources(t) {
		if !boundFolders.MatchString(s.pkg()) || strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, name := range constants(s) {
			full := s.pkg() + "." + name
			if boundName.MatchString(name) && !known[full] && !others[full] {
				t.Errorf("%s: %s is in no row of docs/limits.md. If no client reaches it, add it to internal/lint/testdata/bounds", s.path, full)
			}
			delete(others, full)
		}
	}
	require.Empty(t, others, "constants in testdata/bounds that do not exist")
}

// limitRows returns the cells of the rows of docs/limits.md.
func limitRows(t *testing.T) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "limits.md"))
	require.NoError(t, err)
	for _, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "| What a client can cause |") {
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		require.Len(t, cells, limitColumns, line)
		rows = append(rows, cells)
	}
	require.NotEmpty(t, rows)
	return rows
}

// constants returns the names of the package-level constants of a file.
func constants(s source) (names []string) {
	for _, d := range s.file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, spec := range g.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}
