package dev

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// lock makes this process the only one on the data directory, until it ends in whatever way. What else finds its own
// traces there (an ownership key in etcd) may therefore remove them.
func lock(dataDir string) (unlock func(), err error) {
	path := filepath.Join(dataDir, "lock")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("--data-dir %s cannot be written to: %w: set --data-dir to a directory that this user may write to", dataDir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("--data-dir %s is in use by another process: stop that process, or set --data-dir to another directory", dataDir)
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}
