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

// Memory limit of the process, and bounds of its peak memory and of the bystander's waits.
const (
	memoryLimit = 512 << 20
	peakBound   = 640 << 20
	answerBound = 10 * time.Second
	wholeAfter  = 5 * time.Second // pause between the attack and the last requests of the bystander
)

// attack is an attack of one client. run and prepare get the bootstrap address; run returns the outcome of its requests, for the output.
type attack struct {
	name string
	each bool // run by make test too
	run  func(t *testing.T, bootstrap string) string
	// prepare, if set, runs before the bystander starts.
	prepare func(t *testing.T, bootstrap string)
}

// TestAttacks runs the attacks that have each set. With FRESHET_ATTACKS=1 (make attacks) it runs all.
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
	time.Sleep(wholeAfter) // sleeps: the pause before the last requests
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

// resetPeak sets the peak memory of a process to its current memory.
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
