//go:build !linux

package metadata

import "time"

// threadCPU is not known here; the benchmark reports wall time only.
func threadCPU() time.Duration { return 0 }

func threadWait() time.Duration { return 0 }
