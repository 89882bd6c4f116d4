package txn_test

import (
	"syscall"
	"time"
)

// cpu returns the processor time of the process until stop is closed.
func cpu(stop chan struct{}) time.Duration {
	used := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	<-stop
	return used() - before
}
