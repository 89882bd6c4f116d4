package attacks

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// Bounds, and the memory that the process is given.
const (
	memoryLimit = 512 << 20
	peakBound   = 640 << 20
	answerBound = 10 * time.Second
	wholeAfter  = 5 * time.Second
)

// attack is what one client does to the process at an address. It returns what became of its requests.
type attack struct {
	name string
	each bool // also in each run of make test
	run  func(t *testing.T, bootstrap string) string
	// prepare is what the attack needs beforehand; nil for nothing.
	prepare func(t *testing.T, bootstrap string)
}

// TestAttacks runs a third of the attacks, and all with FRESHET_ATTACKS=1 (make attacks).
func TestAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(strings.ReplaceAll(a.name, " ", "_"), func(t *testing.T) {
			if !a.each && os.Getenv("FRESHET_ATTACKS") == "" {
				t.Skip("only in make attacks")
			}
			attackOne(t, a)
		})
	}
}

func attackOne(t *testing.T, a attack) {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("peak memory is read from /proc")
	}
	d := harness.StartDev(t, "--memory-limit", strconv.Itoa(memoryLimit))
	harness.CLI(t, d.Bootstrap, nil, "topic", "create", bystanders, "--partitions", "1")
	if a.prepare != nil {
		a.prepare(t, d.Bootstrap)
	}
	b := watch(t, d.Bootstrap)
	resetPeak(t, d.PID())
	began := time.Now()
	outcome := a.run(t, d.Bootstrap)
	took := time.Since(began)
	time.Sleep(wholeAfter) // sleeps: until service has to be whole
	whole := b.await(10)
	longest := b.end()
	peak := peakOf(t, d.PID())
	t.Logf("%s: %s\n  took %.1f s; others waited: %s; 10 requests of each kind %.1f s later: %.2f s; peak memory %d MiB", a.name, outcome, took.Seconds(),
		describe(longest), wholeAfter.Seconds(), whole.Seconds(), peak>>20)
	for kind, d := range longest {
		assert.Less(t, d, answerBound, kind)
	}
	assert.Less(t, whole, answerBound)
	assert.Less(t, peak, int64(peakBound))
	resp, err := http.Get(d.HTTP + "/readyz")
	require.NoError(t, err, "the process lives")
	_ = resp.Body.Close()
	require.Equal(t, http.StatusOK, resp.StatusCode)
}

// resetPeak sets the peak memory of a process to its present memory.
func resetPeak(t *testing.T, pid int) {
	t.Helper()
	require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0))
}

// peakOf returns the peak memory of a process since resetPeak, in bytes.
func peakOf(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := bytes.Cut(status, []byte("VmHWM:"))
	require.True(t, found)
	kib, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
	require.NoError(t, err)
	return kib << 10
}
