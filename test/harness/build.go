package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// root is this repository's directory.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

var freshet struct {
	once sync.Once
	path string
	err  error
	out  []byte
}

// Freshet gives the path of the binary under test, built from this tree once per test process. FRESHET_BINARY names
// another one (built with -race or -cover, say).
func Freshet(t testing.TB) string {
	t.Helper()
	freshet.once.Do(func() {
		if freshet.path = os.Getenv("FRESHET_BINARY"); freshet.path != "" {
			return
		}
		freshet.path = filepath.Join(root(), "bin", "freshet-e2e")
		cmd := exec.Command("go", "build", "-o", freshet.path, "./cmd/freshet")
		cmd.Dir = root()
		freshet.out, freshet.err = cmd.CombinedOutput()
	})
	if freshet.err != nil {
		t.Fatalf("build freshet: %v\n%s", freshet.err, freshet.out)
	}
	return freshet.path
}
