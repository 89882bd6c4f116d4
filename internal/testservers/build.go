package testservers

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// packages are the main packages of the servers, by binary name.
var packages = map[string]string{
	"versitygw": "github.com/versity/versitygw/cmd/versitygw",
	"etcd":      "go.etcd.io/etcd/server/v3",
	"etcdctl":   "go.etcd.io/etcd/etcdctl/v3",
}

// Binary returns the path of a server's program ("versitygw", "etcd" or "etcdctl"), built if need be. It skips the test
// under -short.
func Binary(tb testing.TB, name string) string {
	tb.Helper()
	if testing.Short() {
		tb.Skip("starts " + name)
	}
	path, err := Build(name)
	if err != nil {
		tb.Fatalf("build %s: %v", name, err)
	}
	return path
}

// Build is Binary outside of tests. The first build takes a minute or two and fetches the server's module.
func Build(name string) (string, error) {
	pkg, ok := packages[name]
	if !ok {
		return "", fmt.Errorf("no server is called %q", name)
	}
	module, err := moduleDir()
	if err != nil {
		return "", err
	}
	dir, err := cacheDir(module)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	unlock, err := lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	cmd := exec.Command("go", "build", "-o", path+".new", pkg)
	cmd.Dir = module
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, os.Rename(path+".new", path)
}

// moduleDir finds tools/servers of this repository from the working directory upwards: tests run in their package's.
func moduleDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		module := filepath.Join(dir, "tools", "servers")
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			return module, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("tools/servers is in no directory above the working directory")
		}
		dir = parent
	}
}

func cacheDir(module string) (string, error) {
	sum, err := os.ReadFile(filepath.Join(module, "go.sum"))
	if err != nil {
		return "", err
	}
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir()
	}
	version := sha256.Sum256(append(sum, runtime.Version()...))
	dir := filepath.Join(base, "freshet", "test-servers", fmt.Sprintf("%x", version[:6]))
	return dir, os.MkdirAll(dir, 0o755)
}

// lock keeps two test processes from building the same thing at once.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}
