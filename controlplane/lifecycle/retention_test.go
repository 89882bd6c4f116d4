package lifecycle_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestRetention_FollowsTheConfigsOfNow changes configs between the moment at which a round looks and its commands.
func TestRetention_FollowsTheConfigsOfNow(t *testing.T) {
	for name, change := range map[string]*metadata.SetConfigs{
		"more time":         {Resource: metadata.ConfigTopic, Set: map[string]string{"retention.ms": "-1"}},
		"another policy":    {Resource: metadata.ConfigTopic, Set: map[string]string{"cleanup.policy": "compact"}},
		"cluster's default": {Resource: metadata.ConfigBroker, Set: map[string]string{"log.cleanup.policy": "compact"}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, lifecycle.Settings{RetentionCheck: time.Minute}, func(w *world) {
				tp, other := w.create("t", map[string]string{"retention.ms": "600000"}), w.create("other", map[string]string{"cleanup.policy": "delete", "retention.ms": "600000"})
				w.produce(tp, other)
				time.Sleep(9 * time.Minute)
				change.Topic = tp.Topic
				w.mu.Lock()
				w.after = func() { w.must(change) }
				w.mu.Unlock()
				time.Sleep(time.Hour)
				synctest.Wait()
				require.Zero(t, w.logStart(tp))
				require.EqualValues(t, 10, w.logStart(other), "whose configs are as they were")
			})
		})
	}
}

// Records without timestamps are as old as their appending.
func TestRetention_WithoutTimestamps(t *testing.T) {
	inWorld(t, lifecycle.Settings{RetentionCheck: time.Minute}, func(w *world) {
		tp := w.create("t", map[string]string{"retention.ms": "600000"})
		for n := range uint32(2) {
			var b commit.Builder
			b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: n + 1}, Bytes: 1000})
			b.Section(commit.Section{Partition: tp, Position: 16})
			b.Batch(commit.Batch{Records: 10, Bytes: 100, MaxTimestamp: -1, ProducerID: -1})
			w.must(&metadata.CommitBundle{Encoded: b.AppendTo(nil)})
			time.Sleep(5 * time.Minute)
		}
		require.Zero(t, w.logStart(tp))
		time.Sleep(90 * time.Second)
		require.EqualValues(t, 10, w.logStart(tp))
		time.Sleep(5 * time.Minute)
		require.EqualValues(t, 20, w.logStart(tp))
	})
}
