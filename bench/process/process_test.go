package process

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestParseCPU(t *testing.T) {
	stat := func(name string) string {
		return "4242 (" + name + ") S 1 4242 4242 0 -1 4194560 100 0 0 0 1234 66 7 8 20 0 5 0 100 0 0"
	}
	for _, name := range []string{"freshet", "a b", "evil) R 1 2 3 4 5 6 7 8 9 10 11 12 13"} {
		got, err := parseCPU(stat(name))
		require.NoError(t, err, name)
		require.InDelta(t, 13.00, got, 1e-9, "utime 1234 and stime 66 ticks; children's do not count (%s)", name)
	}
	for _, bad := range []string{"", "4242 freshet S 1", "1 (x) S 1 2 3", "1 (x) S 1 1 1 0 -1 0 0 0 0 0 many 66 0 0"} {
		_, err := parseCPU(bad)
		require.Error(t, err, bad)
	}
}

// The figures are the kernel's for just this process: burning CPU shows.
func TestProcess_CPUAndMemoryOfThisOne(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("CPU time is read from /proc, which is not here")
	}
	p := &Process{pid: os.Getpid()}
	before, err := p.CPU()
	require.NoError(t, err)
	sum := 0
	for deadline := time.Now().Add(10 * time.Second); ; {
		for i := range 10_000_000 {
			sum ^= i
		}
		after, err := p.CPU()
		require.NoError(t, err)
		if after-before >= 0.05 {
			break
		}
		require.True(t, time.Now().Before(deadline), "no CPU time was counted (%d)", sum)
	}
	memory, err := p.Memory()
	require.NoError(t, err)
	peak, err := p.PeakMemory() // after it: the process grows meanwhile
	require.NoError(t, err)
	require.Greater(t, memory, int64(1<<20))
	require.GreaterOrEqual(t, peak, memory)
}
