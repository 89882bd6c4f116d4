package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// root returns this repository's directory: the nearest one with a go.mod, from the working directory up. Tests run in
// the directory of their package.
var root = sync.OnceValue(func() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			panic("test/harness: no go.mod above the working directory")
		}
		dir = parent
	}
})

var freshet struct {
	once sync.Once
	path string
	err  error
	out  []byte
}

// build builds the binary of the tree in dir under a file lock, so that no test process runs a partly written one. Later
// processes find it up to date.
func build(dir, path, program string, flags ...string) ([]byte, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	defer lock.Close() // lets the lock go
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", append(append([]string{"build"}, flags...), "-o", path, "./cmd/"+program)...)
	cmd.Dir = dir
	return cmd.CombinedOutput()
}

// Freshet returns the path of the binary under test. If FRESHET_BINARY is set, it is that path. Otherwise the first call in
// a process builds this tree.
func Freshet(t testing.TB) string {
	t.Helper()
	freshet.once.Do(func() {
		if freshet.path = os.Getenv("FRESHET_BINARY"); freshet.path != "" {
			return
		}
		freshet.path = filepath.Join(root(), "bin", "freshet-e2e")
		freshet.out, freshet.err = build(root(), freshet.path, "freshet")
	})
	if freshet.err != nil {
		t.Fatalf("build freshet: %v\n%s", freshet.err, freshet.out)
	}
	return freshet.path
}

// FreshetBench builds this tree's freshet-bench and returns its path.
func FreshetBench(t testing.TB) string {
	t.Helper()
	path := filepath.Join(root(), "bin", "freshet-bench-e2e")
	if out, err := build(root(), path, "freshet-bench"); err != nil {
		t.Fatalf("build freshet-bench: %v\n%s", err, out)
	}
	return path
}
