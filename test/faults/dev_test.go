package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/freshet-io/freshet/test/harness"
)

const (
	devKills = 5
	// devStart is how long `freshet dev` may take to be ready after a kill -9: no lease is waited for.
	devStart = 4 * time.Second
)

// TestDev_KilledAgainAndAgain kills `freshet dev` with kill -9 while producers write.
func TestDev_KilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	began := time.Now()
	d := harness.StartDev(t)
	first := time.Since(began)
	tr := startTraffic(t, d.Bootstrap)
	var starts []time.Duration // a machine that stands still for a moment makes some of them longer
	for range devKills {
		d.Kill()
		began = time.Now()
		d.Restart()
		starts = append(starts, time.Since(began))
		tr.flows()
	}
	t.Logf("ready after %v, on an empty directory after %v", starts, first)
	// An empty directory is started on without any lease to wait for.
	harness.Within(t, "quickest start after kill -9", slices.Min(starts), devStart+first)
	harness.Within(t, "longest stall", tr.finish(), slices.Max(starts)+devStart)
}
