package testservers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Ports that tests give to servers are below those that the kernel gives to connections. A test process has blocks of them
// for itself, each by the lock of a file, which ends with the process however that happens.
const (
	firstPort, lastPort = 10_000, 32_000
	portBlock           = 200
)

// tutorialPorts are in the blocks that no test takes: TestTutorial runs deploy/local/cluster.sh, whose ports are fixed.
var tutorialPorts = []int{12379, 17010, 17480, 18010, 19010, 19210, 27010, 28010, 29010, 29214}

// ports are those of this process.
var ports portBlocks

type portBlocks struct {
	mu        sync.Mutex
	free, end int
	locks     []*os.File // for as long as the process lives
}

// next gives a port that no other test process is given, and this one has not been given.
func (b *portBlocks) next() (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.free == b.end {
		if err := b.take(); err != nil {
			return 0, fmt.Errorf("take a block of ports: %w", err)
		}
	}
	b.free++
	return b.free - 1, nil
}

// take takes a block that no process has. Called with mu held.
func (b *portBlocks) take() error {
	dir := filepath.Join(os.TempDir(), fmt.Sprint("freshet-test-ports-", os.Getuid()))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, block := range rand.Perm((lastPort - firstPort) / portBlock) {
		first := firstPort + block*portBlock
		if slices.ContainsFunc(tutorialPorts, func(port int) bool { return port >= first && port < first+portBlock }) {
			continue
		}
		lock, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(first)), os.O_CREATE|os.O_RDWR, 0o644)
		if err != nil {
			return err
		}
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			b.locks = append(b.locks, lock)
			b.free, b.end = first, first+portBlock
			return nil
		}
		if closed := lock.Close(); !errors.Is(err, unix.EWOULDBLOCK) {
			return errors.Join(err, closed)
		}
	}
	return errors.New("other test processes have all")
}
