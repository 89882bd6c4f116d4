package owner_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// Commits slow down from three quarters of the bound on and are refused at it, long after the log and a metric said so. All
// else goes on, and once something was trimmed so do they.
func TestOwner_SlowsDownTowardsTheBoundOfMetadata(t *testing.T) {
	for _, bound := range []string{"extents", "bundles"} {
		t.Run(bound, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { slowsDown(t, bound) })
		})
	}
}

func slowsDown(t *testing.T, bound string) {
	t.Helper()
	logged, lines := observer.New(zapcore.WarnLevel)
	registry := prometheus.NewRegistry()
	f := start(t, func(c *owner.Config) {
		if c.MaxExtents, c.MaxFresh = 100, 1<<20; bound == "bundles" {
			c.MaxExtents, c.MaxFresh = 1<<20, 100
		}
		c.Logger, c.Registerer, c.MaxDelay = zap.New(logged), registry, time.Second
	})
	end := f.run(t)
	tp := id.TopicPartition{Topic: id.Topic{1}}
	must := func(c metadata.Command) time.Duration {
		t.Helper()
		began := time.Now()
		result, _, err := f.Propose(t.Context(), c)
		require.NoError(t, err)
		require.NoError(t, result.Err)
		return time.Since(began)
	}
	must(&metadata.CreateTopic{ID: tp.Topic, Name: "t", Partitions: 1})
	must(&metadata.OpenSession{Instance: "i"})
	n := uint32(0)
	commitOne := func() metadata.Command {
		var b commit.Builder
		b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: n + 1}, Bytes: 100})
		b.Section(commit.Section{Partition: tp})
		b.Batch(commit.Batch{Records: 1, Bytes: 61, ProducerID: -1})
		return &metadata.CommitBundle{Encoded: b.AppendTo(nil)}
	}
	last := time.Duration(0)
	for ; n < 100; n++ {
		took := must(commitOne())
		require.GreaterOrEqual(t, took, last, "delays grow")
		require.Equal(t, n > 75, took > 0, "commit %d took %v", n+1, took)
		require.Less(t, took, time.Second)
		last = took
	}
	require.Greater(t, last, 900*time.Millisecond)
	_, _, err := f.Propose(t.Context(), commitOne())
	require.ErrorIs(t, err, owner.ErrOverloaded)
	require.Len(t, lines.All(), 2, "at a half and at three quarters")
	require.InDelta(t, 1, gathered(t, registry, "freshet_owner_metadata_share"), 0.001)

	require.Zero(t, must(&metadata.SetConfigs{Resource: metadata.ConfigBroker, Set: map[string]string{"k": "v"}}), "no commit")
	must(&metadata.TrimPartitions{Trims: []metadata.Trim{{Partition: tp, Offset: -1}}})
	require.Zero(t, must(&metadata.Tick{}))
	require.Zero(t, must(commitOne()))
	require.NoError(t, end())
	require.Zero(t, gathered(t, registry, "freshet_owner_metadata_share"))
}

func gathered(t *testing.T, r *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := r.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.Metric[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no metric %q", name)
	return 0
}
