package logsoak

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/nightly"
)

// small is a soak whose bounds are reached in seconds.
func small(t *testing.T) Config {
	t.Helper()
	if testing.Short() {
		t.Skip("starts etcd")
	}
	var out bytes.Buffer
	t.Cleanup(func() { t.Logf("\n%s", &out) })
	return Config{
		Dir: t.TempDir(), Duration: 5 * time.Second, Rate: 4 << 20, Sample: time.Second, StopHealed: true, Heal: time.Minute,
		SnapshotBytes: 2 << 20, SnapshotPoll: 50 * time.Millisecond, SoftLogBytes: 10 << 20, HardLogBytes: 20 << 20,
		SnapshotCount: 50, Upkeep: 500 * time.Millisecond, CompactBytes: 4 << 20, DefragBytes: 8 << 20, Out: &out,
	}
}

func TestRun_TheLogStaysBoundedWhileSnapshotsWork(t *testing.T) {
	cfg := small(t)
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	require.NotEmpty(t, r.Samples)
	last := r.Samples[len(r.Samples)-1]
	require.Positive(t, last.Snapshot, "snapshots were taken")
	require.LessOrEqual(t, r.Max(0, time.Hour, func(s Sample) int64 { return s.Log }), cfg.HardLogBytes+1<<20)
	commits := 0
	for _, s := range r.Samples {
		commits += s.Commits
	}
	require.Positive(t, commits)
}

func TestRun_CommitsStopAtTheBudgetWhileSnapshotsFailAndGoOnAfter(t *testing.T) {
	nightly.Only(t, "fills the log for 20 s, and needs a machine that writes 3 MiB in that time")
	cfg := small(t)
	cfg.Failing = true
	// Small enough for a slow machine to reach within the time that snapshots fail.
	cfg.SoftLogBytes, cfg.HardLogBytes, cfg.SnapshotBytes = 3<<20, 8<<20, 1<<20
	cfg.Duration = 20 * time.Second
	r, err := Run(t.Context(), cfg)
	require.NoError(t, err)
	failing := func(f func(Sample) int64) int64 { return r.Max(0, r.FailedFor, f) }
	logOf := func(s Sample) int64 { return s.Log }
	require.Zero(t, failing(func(s Sample) int64 { return int64(s.Snapshot) }))
	logBytes := failing(logOf)
	require.Greater(t, logBytes, cfg.SoftLogBytes, "the budget was reached: the test is about that")
	require.LessOrEqual(t, logBytes, cfg.HardLogBytes+1<<20)
	require.Positive(t, r.HealedAfter, "commits go on once snapshots work")
	last := r.Samples[len(r.Samples)-1]
	require.Less(t, last.Log, cfg.SoftLogBytes)
	require.Positive(t, last.Snapshot)
}
