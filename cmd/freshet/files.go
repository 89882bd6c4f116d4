package main

import (
	"math"
	"syscall"
)

// openFiles returns the process's limit of open files, or 0 if it is unknown. The Go runtime has raised it to the hard limit.
func openFiles() int64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return int64(min(limit.Cur, math.MaxInt64))
}
