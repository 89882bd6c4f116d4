package harness

import (
	"path/filepath"
	"testing"

	"github.com/freshet-io/freshet/internal/testservers"
)

// PythonProcess describes a script of a folder of test/python, such as quix/totals.py, as a process of its own, not started. The
// requirements.txt beside the script names its packages.
func PythonProcess(t testing.TB, script string, args ...string) *testservers.Process {
	t.Helper()
	path := filepath.Join(root(), "test", "python", script)
	python := PythonWith(t, filepath.Join(filepath.Dir(path), "requirements.txt"))
	return testservers.NewProcess(t, filepath.Base(script), python, append([]string{path}, args...), nil)
}
