package faults

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

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
	// By default franz-go asks for Metadata every 5 s at most, which it does when a connection is refused.
	tr := startTrafficWith(t, []kgo.Opt{kgo.MetadataMinAge(100 * time.Millisecond)}, d.Bootstrap)
	for range devKills {
		d.Kill()
		began = time.Now()
		d.Restart()
		took := time.Since(began)
		t.Logf("ready after %s", took.Round(time.Millisecond))
		require.Less(t, took, devStart+first, "an empty directory is started on without any lease to wait for")
		tr.progress(producers * partitions)
	}
	require.Less(t, tr.finish(), tr.within(devStart+first+time.Second))
}
