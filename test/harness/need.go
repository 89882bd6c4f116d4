package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// Need skips the test if a program that a page of the documentation uses is absent, or fails it with CI=true.
func Need(t testing.TB, program string) {
	t.Helper()
	need(t, program)
}

// need finds a program that a client needs. Absence skips the test, or fails it with CI=true.
func need(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		absent(t, program)
	}
	return path
}

func absent(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed, and CI=true", what)
	}
	t.Skipf("%s is not installed; with CI=true this would fail", what)
}

// prepared gives a directory in the user's cache that fill has filled, once per version and machine: several test
// processes may ask at the same time.
func prepared(t testing.TB, version string, fill func(dir string) error) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	base := filepath.Join(cache, "freshet-test")
	if err := os.MkdirAll(base, 0o755); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, version)
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close() // lets the lock go
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := filepath.Join(dir, "complete")
	if _, err := os.Stat(done); err == nil {
		return dir
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := fill(dir); err != nil {
		t.Fatalf("prepare %s: %v", version, err)
	}
	if err := os.WriteFile(done, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}
