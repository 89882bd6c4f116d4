package timing

import (
	"fmt"
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
	took, err := d.Terminate(10 * time.Second)
	require.NoError(t, err)
	require.Less(t, took, 5*time.Second, "ends within 5 s of SIGTERM")
	d.Restart()
	check()
	for range 3 {
		more()
		d.Kill()
		began = time.Now()
		d.Restart()
		require.Less(t, time.Since(began), first+4*time.Second, "a start after kill -9 must not wait for a lease")
		check()
	}
}

func TestDev_SaysHowToTryIt(t *testing.T) { // etcd warns where a start takes long
	d := harness.StartDev(t)
	require.Contains(t, d.Output(), "freshet is ready, bootstrap address "+d.Bootstrap)
	require.Contains(t, d.Output(), harness.Freshet(t)+" produce numbers -b "+d.Bootstrap)
	for line := range strings.Lines(d.Output()) {
		require.NotContains(t, line, "WARN", "a start on an empty directory has nothing to warn of")
		require.NotContains(t, line, "ERROR")
	}
}
