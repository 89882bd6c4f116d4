package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the module's directory, seen from this package.
const root = "../.."

// source is one parsed Go file of ours; generated ones are left out.
type source struct {
	path string // relative to the module
	fset *token.FileSet
	file *ast.File
	text string
}

// pkg returns the file's folder, relative to the module.
func (s source) pkg() string { return filepath.ToSlash(filepath.Dir(s.path)) }

// sources returns all files. Tests do not change them.
func sources(t *testing.T) []source {
	t.Helper()
	all, err := parsed()
	require.NoError(t, err)
	require.NotEmpty(t, all)
	return all
}

// parsed reads and parses once, for all tests.
var parsed = sync.OnceValues(func() (all []source, err error) {
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if skipped(path, d) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err == nil && !ast.IsGenerated(file) {
			all = append(all, source{rel, fset, file, string(text)})
		}
		return err
	})
	return all, err
})

// skipped reports whether a directory holds no sources of ours.
func skipped(path string, d fs.DirEntry) bool {
	return d.IsDir() && path != root &&
		(strings.HasPrefix(d.Name(), ".") || slices.Contains([]string{"testdata", "artifacts", "bin", "data", "node_modules"}, d.Name()))
}

func TestPackagesHaveComments(t *testing.T) {
	documented := map[string]bool{}
	for _, s := range sources(t) {
		key := filepath.Dir(s.path) + " " + strings.TrimSuffix(s.file.Name.Name, "_test")
		documented[key] = documented[key] || s.file.Doc != nil
	}
	for key, ok := range documented {
		if !ok {
			t.Errorf("package in %s has no package comment", key)
		}
	}
}

var nolint = regexp.MustCompile(`//\s*nolint(:[a-z0-9,]+)?(.*)`)

func TestNolintHasLinterAndReason(t *testing.T) {
	for _, s := range sources(t) {
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				m := nolint.FindStringSubmatch(c.Text)
				if m == nil || !strings.HasPrefix(c.Text, "//nolint") {
					continue
				}
				if m[1] == "" || len(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(m[2]), "//"))) < 8 {
					t.Errorf("%s: write //nolint:<linter> // <reason>", s.fset.Position(c.Pos()))
				}
			}
		}
	}
}

// TestNoSleep: waiting by sleeping is either too short or too long. Inside testing/synctest bubbles time is fake and
// sleeping is how it passes; a load model may sleep because a delay is what it models.
func TestNoSleep(t *testing.T) {
	const excuse = "// sleeps: "
	for _, s := range sources(t) {
		if strings.HasSuffix(s.path, "_test.go") && imports(s.file, "testing/synctest") {
			continue
		}
		lines := strings.Split(s.text, "\n")
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok || sel.Sel.Name != "Sleep" {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "time" {
				return true
			}
			pos := s.fset.Position(sel.Pos())
			if !strings.Contains(lines[pos.Line-1], excuse) {
				t.Errorf("%s: time.Sleep: wait for what you wait for, or end the line with %q and why", pos, excuse)
			}
			return true
		})
	}
}

// skips are ways to leave a test out; each must say why.
var skips = []string{"Skip", "SkipNow"}

func TestSkipsSayWhy(t *testing.T) {
	for _, s := range sources(t) {
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains(skips, sel.Sel.Name) || len(call.Args) > 0 {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); ok && (x.Name == "t" || x.Name == "b" || x.Name == "tb") {
				t.Errorf("%s: a skipped test says why", s.fset.Position(call.Pos()))
			}
			return true
		})
	}
}

func imports(f *ast.File, path string) bool {
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"`+path+`"` })
}
