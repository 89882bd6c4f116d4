package timing

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/test/harness"
)

// numbers are lines "first".."last".
func numbers(first, last int) string {
	var b strings.Builder
	for i := first; i <= last; i++ {
		fmt.Fprintln(&b, i)
	}
	return b.String()
}

// TestDev_SurvivesRestartAndKill: what was acknowledged is there after a clean end and after kill -9, and a new start
// serves at once (it need not wait for the dead owner's lease).
func TestDev_SurvivesRestartAndKill(t *testing.T) {
	began := time.Now()
	d := harness.StartDev(t)
	first := time.Since(began)
	harness.CLI(t, d.Bootstrap, nil, "topic", "create", "kept", "--partitions", "1")
	next := 1
	more := func() {
		t.Helper()
		harness.CLI(t, d.Bootstrap, strings.NewReader(numbers(next, next+999)), "produce", "kept")
		next += 1000
	}
	check := func() {
		t.Helper()
		require.Equal(t, numbers(1, next-1), harness.CLI(t, d.Bootstrap, nil, "consume", "kept", "--from", "earliest", "-e"))
	}
	more()
	took, err := d.Terminate(time.Minute)
	require.NoError(t, err)
	harness.Within(t, "SIGTERM to the end", took, 10*time.Second)
	d.Restart()
	check()
	var starts []time.Duration
	for range 3 {
		more()
		d.Kill()
		began = time.Now()
		d.Restart()
		starts = append(starts, time.Since(began))
		check()
	}
	harness.Within(t, "quickest start after kill -9", slices.Min(starts), first+4*time.Second)
}

// TestDev_SaysHowToTryIt: a start on an empty directory prints how to try it, and no warning but those of slowness.
func TestDev_SaysHowToTryIt(t *testing.T) {
	d := harness.StartDev(t)
	said := d.Output()
	require.Contains(t, said, "freshet is ready, bootstrap address "+d.Bootstrap)
	require.Contains(t, said, harness.Freshet(t)+" produce numbers -b "+d.Bootstrap)
	require.Empty(t, harness.Alarms(said))
}
