package lifecycle_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/lifecycle"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

const refusedLine = "object cannot be deleted, it is tried again"

// kill makes n dead bundles, which the round in 15 minutes deletes.
func (w *world) kill(n int) (names []id.Bundle) {
	w.t.Helper()
	tp := w.create("killed", nil)
	for range n {
		names = append(names, w.produce(tp))
	}
	w.must(&metadata.DeleteTopic{ID: tp.Topic})
	for w.state.CleaningUp() {
		w.must(&metadata.Tick{})
	}
	require.Len(w.t, w.dead(), n)
	w.keep()
	return names
}

func (w *world) refusals() []observer.LoggedEntry { return w.logs.FilterMessage(refusedLine).All() }

func TestGarbage_ReportsTheCleanupBacklog(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		const partitions = 20_000 // more than the Ticks of one round take
		topic := id.Topic{1}
		w.must(&metadata.CreateTopic{ID: topic, Name: "t", Partitions: partitions})
		var b commit.Builder
		b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: 1}, Bytes: 16 + 100*partitions})
		for p := range int32(partitions) {
			b.Section(commit.Section{Partition: id.TopicPartition{Topic: topic, Partition: p}, Position: uint32(16 + 100*p)})
			b.Batch(commit.Batch{Records: 10, Bytes: 100, MaxTimestamp: time.Now().UnixMilli(), ProducerID: -1})
		}
		w.must(&metadata.CommitBundle{Encoded: b.AppendTo(nil)})
		w.must(&metadata.DeleteTopic{ID: topic})
		sleep(time.Minute)
		require.Positive(t, w.metric("cleanup_extents"))
		require.Less(t, w.metric("cleanup_extents"), float64(partitions))
		sleep(5 * time.Minute)
		require.Zero(t, w.metric("cleanup_extents"))
	})
}

// An object that cannot be deleted, for example under a legal hold, costs no other object a round. It is tried again with growing
// pauses, of which the log says no more than one line an hour, and goes when it can be deleted.
func TestGarbage_OneRefusedObjectHoldsUpNoOther(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		names := w.kill(objstore.MaxKeys + 500)
		refused := names[objstore.MaxKeys/2]
		key := bundle.Key(prefix, refused)
		rule := w.bucket.MustAdd("delete key=" + key + " refuse")
		sleep(15*time.Minute + time.Second)
		require.Equal(t, []string{key}, w.objects())
		require.Equal(t, []id.Bundle{refused}, w.dead(), "all others are forgotten")
		require.EqualValues(t, 1499, w.metric("deleted_bundles_total"))
		require.Zero(t, w.metric("failures_total"))
		require.EqualValues(t, 1, w.metric("held_back_bundles"))
		require.Zero(t, w.metric("held_back_seconds"))
		require.Len(t, w.refusals(), 1)
		fields := w.refusals()[0].ContextMap()
		require.Equal(t, refused.String(), fields["bundle"])
		require.Equal(t, "injected fault", fields["error"])
		require.Contains(t, fields["check"], "legal hold")
		require.Equal(t, 1, rule.Hits())

		sleep(62 * time.Minute) // it is tried after 1, 3, 7, 15 and 31 minutes
		require.Equal(t, 6, rule.Hits())
		require.EqualValues(t, 62*60, w.metric("held_back_seconds"))
		require.Len(t, w.refusals(), 1)
		sleep(10 * time.Hour) // after 63 minutes, and then hourly
		require.Equal(t, 16, rule.Hits())
		require.Len(t, w.refusals(), 11)
		require.Equal(t, len(w.refusals()), w.logs.Len(), "nothing else is logged")

		w.bucket.Clear()
		sleep(time.Hour)
		require.Empty(t, w.objects())
		require.Empty(t, w.dead())
		require.Zero(t, w.metric("held_back_bundles"))
		require.Zero(t, w.metric("held_back_seconds"))
	})
}

// A request that fails as a whole holds up no other. Several in a row end the round, and the next round begins with the untried bundles.
func TestGarbage_FailedRequestsHoldUpNoOther(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		names := w.kill(5 * objstore.MaxKeys)
		poison := w.bucket.MustAdd("delete key=" + bundle.Key(prefix, names[0]) + " fail")
		sleep(15*time.Minute + time.Second)
		require.Equal(t, names[:objstore.MaxKeys], w.dead(), "the request with the poison")
		require.Equal(t, 1, poison.Hits())
		require.EqualValues(t, 1, w.metric("failures_total"))
		require.EqualValues(t, objstore.MaxKeys, w.metric("held_back_bundles"))
		require.Empty(t, w.refusals(), "the round's error says it")
		w.bucket.Clear()
		sleep(time.Minute)
		require.Empty(t, w.dead())
		require.Zero(t, w.metric("held_back_bundles"))
	})
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		w.kill(5 * objstore.MaxKeys)
		away := w.bucket.MustAdd("delete fail")
		sleep(15*time.Minute + time.Second)
		require.Equal(t, 3, away.Hits(), "three in a row end the round")
		require.EqualValues(t, 3*objstore.MaxKeys, w.metric("held_back_bundles"))
		w.bucket.Clear()
		w.bucket.MustAdd("delete nth=3 fail") // those not tried go first
		sleep(time.Minute)
		require.Len(t, w.dead(), objstore.MaxKeys)
		require.EqualValues(t, objstore.MaxKeys, w.metric("held_back_bundles"))
	})
}

// Without a connected agent garbage waits: nothing is held back, so all of it goes once an agent is there.
func TestGarbage_WaitsForAnAgent(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		w.agents.away.Store(true)
		w.kill(3)
		sleep(10 * time.Minute)
		require.Zero(t, w.metric("waiting_garbage_seconds"), "no agent could delete a bundle yet")
		require.Zero(t, w.logs.Len())
		sleep(5*time.Minute + time.Second)
		require.EqualValues(t, 15*60, w.metric("waiting_garbage_seconds"))
		sleep(2 * time.Hour)
		require.EqualValues(t, 135*60, w.metric("waiting_garbage_seconds"))
		require.Len(t, w.dead(), 3)
		require.Zero(t, w.metric("held_back_bundles"))
		require.Zero(t, w.metric("failures_total"))
		require.Equal(t, 1, w.logs.Len())
		require.Equal(t, "dead bundles are not deleted before an agent with the jobs role connects", w.logs.All()[0].Message)

		w.agents.away.Store(false)
		sleep(time.Minute)
		require.Empty(t, w.objects())
		require.Empty(t, w.dead())
		require.Zero(t, w.metric("waiting_garbage_seconds"))
		require.Equal(t, 1, w.infos.FilterMessage("dead bundles are deleted again").Len())
		w.kill(1)
		w.agents.away.Store(true)
		sleep(16 * time.Minute)
		require.Equal(t, 2, w.logs.Len(), "it begins to wait again")
	})
}

// Agents that may delete nothing are refused at each key. The log says so in no more lines than a reader can take.
func TestGarbage_AllRefused(t *testing.T) {
	inWorld(t, lifecycle.Settings{}, func(w *world) {
		w.kill(5 * objstore.MaxKeys)
		w.bucket.MustAdd("delete key^" + prefix + " refuse")
		sleep(15*time.Minute + time.Second)
		require.Len(t, w.refusals(), 20)
		require.EqualValues(t, 3*objstore.MaxKeys, w.metric("held_back_bundles"))
		w.bucket.Clear()
		sleep(time.Minute)
		require.Empty(t, w.dead())
	})
}
