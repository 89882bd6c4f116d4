package file

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lockName is the lock file of .tmp and of each directory in it.
const lockName = "lock"

// tmpDir is a bucket's directory for unfinished objects. Its lock tells other processes that the bucket lives.
type tmpDir struct {
	path string
	lock *os.File
}

// openTmp makes a directory of this bucket's own and clears those of buckets that are gone. All of it happens under
// .tmp/lock, so that no directory is seen between its creation and its locking.
func openTmp(dir string) (*tmpDir, error) {
	base := filepath.Join(dir, tmpName)
	if err := mkdirAllDurable(base); err != nil {
		return nil, err
	}
	opening, err := lockFile(filepath.Join(base, lockName), true)
	if err != nil {
		return nil, err
	}
	defer opening.Close()
	others, err := clearDead(base)
	if err != nil {
		return nil, err
	}
	if others == 0 {
		pruneEmpty(dir)
	}
	path, err := os.MkdirTemp(base, "")
	if err != nil {
		return nil, err
	}
	lock, err := lockFile(filepath.Join(path, lockName), true)
	if err != nil {
		return nil, err
	}
	return &tmpDir{path: path, lock: lock}, nil
}

func (t *tmpDir) close() error {
	err := os.RemoveAll(t.path)
	return errors.Join(err, t.lock.Close())
}

// clearDead removes the directories whose lock is free and counts the others.
func clearDead(base string) (alive int, err error) {
	entries, err := os.ReadDir(base)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		path := filepath.Join(base, e.Name())
		lock, err := lockFile(filepath.Join(path, lockName), false)
		if errors.Is(err, unix.EWOULDBLOCK) {
			alive++
			continue
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, err
		}
		if err := os.RemoveAll(path); err != nil {
			return 0, err
		}
		if lock != nil {
			lock.Close()
		}
	}
	return alive, nil
}

// pruneEmpty removes directories that hold no object, deepest first. It runs only while no bucket is open on dir:
// open buckets remember which directories exist. What cannot be removed stays, it does no harm.
func pruneEmpty(dir string) {
	var dirs []string
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // what cannot be read is not pruned
		}
		if !e.IsDir() {
			return nil
		}
		if path == filepath.Join(dir, tmpName) {
			return filepath.SkipDir
		}
		if path != dir {
			dirs = append(dirs, path)
		}
		return nil
	})
	for i := len(dirs) - 1; i >= 0; i-- {
		_ = unix.Rmdir(dirs[i]) // fails if it is not empty
	}
}

// lockFile opens the file, made if need be, and locks it until it is closed or the process ends.
func lockFile(path string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
