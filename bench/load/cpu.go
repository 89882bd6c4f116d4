package load

import (
	"fmt"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// busyShare is the share of all cores above which a client's own lateness cannot be told from the server's.
const busyShare = 0.8

// CPU watches what this process itself costs, for a load generator that has no time left measures itself. Safe for
// concurrent use.
type CPU struct {
	mu   sync.Mutex
	used time.Duration
	at   time.Time
}

// CPUUse is the CPU of this process over a while.
type CPUUse struct {
	Seconds float64 `json:"seconds"` // user and system
	Share   float64 `json:"share"`   // of all cores it may use, 0 to 1
}

// NewCPU starts watching.
func NewCPU() *CPU { return &CPU{used: processCPU(), at: time.Now()} }

// Use gives the CPU used since the call before.
func (c *CPU) Use() CPUUse {
	c.mu.Lock()
	defer c.mu.Unlock()
	used, at := processCPU(), time.Now()
	spent, elapsed := used-c.used, at.Sub(c.at)
	c.used, c.at = used, at
	if elapsed <= 0 {
		return CPUUse{}
	}
	return CPUUse{Seconds: spent.Seconds(), Share: spent.Seconds() / elapsed.Seconds() / float64(runtime.GOMAXPROCS(0))}
}

// Warning says, if it is so, that the client was probably the bottleneck.
func (u CPUUse) Warning() string {
	if u.Share < busyShare {
		return ""
	}
	return fmt.Sprintf("the client itself used %.0f %% of its cores: latencies and rates may be the client's own; use more workers or a lower rate", u.Share*100)
}

func processCPU() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
