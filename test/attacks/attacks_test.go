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
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/internal/testservers"
	"github.com/freshet-io/freshet/test/harness"
)

// Memory limit of the process, and bounds of its peak memory and of the bystander's waits.
const (
	memoryLimit = 512 << 20
	peakBound   = 640 << 20
	answerBound = 10 * time.Second
	wholeAfter  = 5 * time.Second // bound of the time between the end of the attack and whole service
	wholeTime   = time.Second     // bound of the time of 10 requests of each kind, for whole service
)

// attack is an attack of one client. run and prepare get the bootstrap address. run returns the outcome of its requests, for the output.
type attack struct {
	name   string
	each   bool // run by make test too
	secure bool // clients connect by TLS
	run    func(t *testing.T, bootstrap string) string
	// prepare, if set, runs before the bystander starts.
	prepare func(t *testing.T, bootstrap string)
}

// TestAttacks runs the attacks with each set. If FRESHET_ATTACKS is set (make attacks), it runs all.
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
	started := time.Now()
	flags, client := []string{"--memory-limit", strconv.Itoa(memoryLimit)}, []kgo.Opt(nil)
	if a.secure {
		files := testservers.NewTLSFiles(t)
		flags = append(flags, "--kafka-tls-cert", files.Cert, "--kafka-tls-key", files.Key)
		client = append(client, kgo.DialTLSConfig(files.Config))
	}
	d := harness.StartDev(t, flags...)
	client = append(client, kgo.SeedBrokers(d.Bootstrap))
	createTopic(t, client)
	if a.prepare != nil {
		a.prepare(t, d.Bootstrap)
	}
	b := watch(t, client)
	resetPeak(t, d.PID())
	began := time.Now()
	outcome := a.run(t, d.Bootstrap)
	took := time.Since(began)
	whole := b.awaitWhole()
	longest := b.end()
	peak := peakOf(t, d.PID())
	t.Logf("%s: %s\n  prepared in %.1f s, took %.1f s; others waited: %s; service was whole %.2f s later; peak memory %d MiB",
		a.name, outcome, began.Sub(started).Seconds(), took.Seconds(), describe(longest), whole.Seconds(), peak>>20)
	for kind, d := range longest {
		assert.Less(t, d, answerBound, kind)
	}
	harness.Within(t, "service was whole after", whole, wholeAfter)
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
