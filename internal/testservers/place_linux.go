package testservers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespaces is where `ip netns` keeps them.
const namespaces = "/run/netns"

// enter calls f with the calling goroutine's thread in the place's network namespace. Only sockets that f itself makes,
// not goroutines that it starts, are there.
func (p Place) enter(f func() error) (err error) {
	if p.Namespace == "" {
		return f()
	}
	there, err := os.Open(filepath.Join(namespaces, p.Namespace))
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer there.Close()
	runtime.LockOSThread()
	here, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("open the thread's network namespace: %w", err)
	}
	defer here.Close()
	if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNET); err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("enter network namespace %s: %w", p.Namespace, err)
	}
	defer func() {
		if back := unix.Setns(int(here.Fd()), unix.CLONE_NEWNET); back != nil {
			err = errors.Join(err, fmt.Errorf("leave network namespace %s: %w", p.Namespace, back))
			return // still locked: the thread ends with its goroutine, so that no other one runs there
		}
		runtime.UnlockOSThread()
	}()
	return f()
}
