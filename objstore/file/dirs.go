package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

const errNotDir = syscall.ENOTDIR

// parentOf is the directory part of a key, "." at the top.
func parentOf(key string) string { return path.Dir(key) }

// makeDurable creates the directory (relative, slash-separated) and those above it, and returns when all their names
// are on disk. A directory that exists already counts only once this bucket has synced its parent itself: another
// process may have made it a moment ago.
func (b *Bucket) makeDurable(dir string) error {
	b.dirs.Lock()
	defer b.dirs.Unlock()
	return b.makeDurableLocked(dir)
}

func (b *Bucket) makeDurableLocked(dir string) error {
	if b.dirs.durable[dir] {
		return nil
	}
	if err := b.makeDurableLocked(path.Dir(dir)); err != nil {
		return err
	}
	full := b.path(dir)
	if err := os.Mkdir(full, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := syncDir(filepath.Dir(full)); err != nil {
		return err
	}
	b.dirs.durable[dir] = true
	return nil
}

// mkdirAllDurable is os.MkdirAll, with every directory it made synced into its parent.
func mkdirAllDurable(dir string) error {
	err := os.Mkdir(dir, 0o755)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case errors.Is(err, fs.ErrNotExist):
		if err := mkdirAllDurable(filepath.Dir(dir)); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case err != nil:
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}
