package testservers

import (
	"errors"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithParent kills the process when the test process dies, however that happens.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// awaitStopped waits until a child that was sent SIGSTOP stands still with all its threads. On a busy machine others go on until the
// one that got the signal has a core.
func awaitStopped(pid int) error {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WSTOPPED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
