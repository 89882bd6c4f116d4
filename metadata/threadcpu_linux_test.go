package metadata

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// threadCPU is the CPU time of the calling thread: what a stall costs without what the machine gave to others.
func threadCPU() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// threadWait is how long the calling thread was ready to run while the machine ran others.
func threadWait() time.Duration {
	stat, err := os.ReadFile("/proc/thread-self/schedstat")
	var ran, waited int64
	if err == nil {
		_, err = fmt.Sscan(string(stat), &ran, &waited)
	}
	if err != nil {
		return 0
	}
	return time.Duration(waited)
}
