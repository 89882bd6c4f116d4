package harness

import (
	"bytes"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
)

// Commit is a commit of this repository that the clone has.
type Commit struct {
	Hash string
	git  string
}

// FindCommit returns a commit by its full hash. The test is skipped where there is no repository, or where the clone lacks the
// commit, as a shallow one may.
func FindCommit(t testing.TB, hash string) *Commit {
	t.Helper()
	c := &Commit{Hash: hash, git: need(t, "git")}
	if _, err := c.run("rev-parse", "--git-dir"); err != nil {
		t.Skipf("no git repository to take commit %s from: %v", hash, err)
	}
	if _, err := c.run("cat-file", "-e", hash+"^{commit}"); err != nil {
		t.Skipf("this clone lacks commit %s: %v", hash, err)
	}
	return c
}

// File returns a file as it is in the commit.
func (c *Commit) File(path string) ([]byte, error) { return c.run("show", c.Hash+":"+path) }

// Version is what a binary of Build logs as its version.
func (c *Commit) Version() string { return "base-" + c.Hash[:12] }

// Build builds the commit's binary in a temporary directory, and returns its path. Without paths in what is built, packages that
// the working tree has alike come from Go's build cache.
func (c *Commit) Build(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	archive, err := c.run("archive", "--format=tar", c.Hash)
	if err != nil {
		t.Fatal(err)
	}
	tar := exec.Command(need(t, "tar"), "-x", "-C", dir)
	tar.Stdin = bytes.NewReader(archive)
	if out, err := tar.CombinedOutput(); err != nil {
		t.Fatalf("unpack %s: %v\n%s", c.Hash, err, out)
	}
	path := filepath.Join(t.TempDir(), "freshet")
	if out, err := build(dir, path, "freshet", "-trimpath", "-ldflags", "-X main.version="+c.Version()); err != nil {
		t.Fatalf("build %s: %v\n%s", c.Hash, err, out)
	}
	return path
}

func (c *Commit) run(args ...string) ([]byte, error) {
	cmd := exec.Command(c.git, args...)
	cmd.Dir = root()
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return nil, fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(exit.Stderr))
	}
	return out, err
}
