package testservers

import (
	"os/exec"
	"syscall"
)

// endWithParent kills the process when the test process dies, however that happens.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
