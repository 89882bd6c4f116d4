package lint

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	// boundName matches the names of bounds, and timeoutName those of time-outs, which count in timeoutFolders.
	boundName   = regexp.MustCompile(`^(max|most)[A-Z]|(Max|Most)[A-Z]`)
	timeoutName = regexp.MustCompile(`(?i)timeout$`)
	boundInPage = regexp.MustCompile("`([a-z0-9/]+)\\.([A-Za-z0-9_]+)`")
	// boundFolders matches the folders of code that clients reach.
	boundFolders = regexp.MustCompile(`^(agent|controlplane|metadata|kafkaproto|internal/(adminhttp|clientmetrics|connlimit|pattern))(/|$)`)
	// timeoutFolders matches the folders that serve connections of clients.
	timeoutFolders = regexp.MustCompile(`^(agent/(edge|fetch|kafka)|internal/(adminhttp|connlimit))$`)
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
		for name := range constants(s) {
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

// largeBytes is the value from which on a constant named ...Bytes is a bound. Smaller ones are the memory of one element.
const largeBytes = 1 << 20

// TestBounds_HaveRows checks that each constant with the name of a bound is in docs/limits.md, or in testdata/bounds if no client reaches it:
// max, most, Bytes from 1 MiB on, and Timeout of a connection. It checks neither figures nor bounds with other names.
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
		for name, value := range constants(s) {
			full := s.pkg() + "." + name
			if isBound(s.pkg(), name, value) && !known[full] && !others[full] {
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

// isBound reports whether a constant bounds memory, work or waiting, by its name and value.
func isBound(pkg, name string, value ast.Expr) bool {
	switch {
	case boundName.MatchString(name):
		return true
	case timeoutName.MatchString(name):
		return timeoutFolders.MatchString(pkg)
	case !strings.HasSuffix(name, "Bytes") || value == nil:
		return false
	}
	v, err := types.Eval(token.NewFileSet(), nil, token.NoPos, types.ExprString(value))
	return err == nil && v.Value != nil && constant.Compare(v.Value, token.GEQ, constant.MakeInt64(largeBytes))
}

func TestBounds_Names(t *testing.T) {
	for _, c := range []struct {
		pkg, name, value string
		want             bool
	}{
		{"metadata", "maxParts", "1", true},
		{"metadata", "DefaultMaxParts", "1", true},
		{"metadata", "maximal", "1", false},
		{"agent/edge", "frameBytes", "1 << 20", true},
		{"agent/edge", "frameBytes", "1<<20 - 1", false},
		{"agent/edge", "frameBytes", "otherBytes", false},
		{"agent/edge", "frameTimeout", "time.Second", true},
		{"agent/cache", "frameTimeout", "time.Second", false},
	} {
		value, err := parser.ParseExpr(c.value)
		require.NoError(t, err)
		require.Equal(t, c.want, isBound(c.pkg, c.name, value), "%s.%s = %s", c.pkg, c.name, c.value)
	}
}

// constants returns the package-level constants of a file by name. The value is nil if the constant repeats the expression before it.
func constants(s source) map[string]ast.Expr {
	values := map[string]ast.Expr{}
	for _, d := range s.file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, spec := range g.Specs {
				spec := spec.(*ast.ValueSpec)
				for i, name := range spec.Names {
					values[name.Name] = nil
					if i < len(spec.Values) {
						values[name.Name] = spec.Values[i]
					}
				}
			}
		}
	}
	return values
}
