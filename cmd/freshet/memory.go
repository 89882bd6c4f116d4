package main

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// memoryShare is how much of what the machine or container has is used; the rest is for what the Go runtime does not
// count.
const memoryShare = 0.9

// memoryLimit gives the memory to work with and tells the Go runtime to stay within it. wanted is the setting; 0 means
// GOMEMLIMIT if set, else nine tenths of the container's limit, else of the machine's memory; most caps these.
func memoryLimit(wanted, most int64) int64 {
	limit := wanted
	if limit == 0 {
		limit = min(availableMemory(), most)
	}
	debug.SetMemoryLimit(limit)
	return limit
}

func availableMemory() int64 {
	if set := debug.SetMemoryLimit(-1); set != math.MaxInt64 {
		return set // GOMEMLIMIT
	}
	for _, provider := range []memlimit.Provider{memlimit.FromCgroup, memlimit.FromSystem} {
		if n, err := memlimit.ApplyRatio(provider, memoryShare)(); err == nil && n > 0 && n < math.MaxInt64 {
			return int64(n)
		}
	}
	return fallbackMemory
}

// fallbackMemory is taken where neither container nor machine can be asked.
const fallbackMemory = 1 << 30
