package replica_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/snapshot"
)

// restore puts a backup of the log back that ends at index. The log must not have been trimmed.
func (w *world) restore(index uint64) {
	w.t.Helper()
	w.store.ExpireLeases()
	l, _, err := w.store.Open("operator", metalog.Config{})
	require.NoError(w.t, err)
	tenure, err := l.Acquire(w.t.Context(), metalog.Candidate{Replica: "operator"})
	require.NoError(w.t, err)
	require.NoError(w.t, tenure.SetSnapshots(w.t.Context(), nil))
	require.NoError(w.t, tenure.Resign(w.t.Context()))
	w.store.Lose(index)
}

// waitEnd waits until a replica ends by itself.
func (w *world) waitEnd(n *node) (err error) {
	w.t.Helper()
	w.waitFor("the replica's end", 10*time.Second, func() bool {
		select {
		case err = <-n.ended:
			return true
		default:
			return false
		}
	})
	return err
}

// attempt writes a snapshot at an index that nothing points to.
func (w *world) attempt(index uint64) snapshot.Found {
	w.t.Helper()
	s := metadata.New()
	s.Apply(index, &metadata.Batch{Now: 1}, nil, nil)
	ref, _, err := snapshot.Write(w.t.Context(), w.bucket, prefix, s)
	require.NoError(w.t, err)
	return snapshot.Found{Index: ref.Index, Name: ref.Name}
}

// The log is restored from a backup while no replica runs. A replica that starts then does not own it, and ends.
func TestReplica_RefusesALogOlderThanItsBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *replica.Config) {
			smallSnapshots(c)
			c.BucketLocation = "s3://records/freshet"
		})
		a := w.start("a")
		w.waitOwner(a, time.Second)
		w.propose(a)
		_, backup := w.store.Indexes()
		w.fill(a, 12_000)
		w.waitFor("a snapshot", 5*time.Second, func() bool { return len(w.refs()) == 1 })
		newest := w.refs()[0]
		w.stop(a)

		w.restore(backup)
		b := w.start("b")
		err := w.waitEnd(b)
		var older *replica.OlderError
		require.ErrorAs(t, err, &older)
		require.Equal(t, &replica.OlderError{
			Tail: backup, Newer: []snapshot.Found{{Index: newest.Index, Name: newest.Name}}, Location: "s3://records/freshet",
		}, older)
		require.Zero(t, b.owned.Load())
		_, tail := w.store.Indexes()
		require.Equal(t, backup, tail, "nothing was written")

		// The operator accepts the loss.
		infos, err := w.bucket.List(t.Context(), newest.Name+"/", "", 10)
		require.NoError(t, err)
		for _, info := range infos {
			require.NoError(t, w.bucket.Delete(t.Context(), []string{info.Key}))
		}
		c := w.start("c")
		w.waitOwner(c, 10*time.Second)
		require.Equal(t, wantNames(1), w.names(c))
		w.stop(c)
	})
}

func TestOlderError_NamesTheNewestSnapshots(t *testing.T) {
	err := &replica.OlderError{Tail: 7, Location: "s3://records", Newer: []snapshot.Found{
		{Index: 8, Name: "e"}, {Index: 9, Name: "d"}, {Index: 10, Name: "c"}, {Index: 11, Name: "b"}, {Index: 12, Name: "a"},
	}}
	require.EqualError(t, err, "metadata is older than --bucket s3://records: the log ends at entry 7, but the bucket has a snapshot of entry 12 "+
		"(a, b, c, d and 1 more). The owner would assign offsets of acknowledged records again. Restore a newer backup of etcd; "+
		"docs/etcd.md describes how to accept the loss")
}

// A takeover lists once. Snapshots of attempts that nothing points to, at the tail or below, are no reason to refuse it.
func TestReplica_TakesOverWithAttemptsUpToTheTail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		w.propose(a)
		w.stop(a)
		_, tail := w.store.Indexes()
		w.attempt(tail)
		w.attempt(tail - 1)
		before := w.bucket.lists.Load()
		b := w.start("b")
		w.waitOwner(b, time.Second)
		require.Equal(t, before+1, w.bucket.lists.Load())
		w.stop(b)
	})
}

// A replica claims the log and is paused before it lists. Another one owns the log meanwhile, and takes a snapshot above the tail
// that the first one knows. The log is not older than that.
func TestReplica_DoesNotTakeALaterOwnersSnapshotForALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, smallSnapshots)
		claimed, resume := make(chan struct{}), make(chan struct{})
		pause := sync.OnceFunc(func() {
			close(claimed)
			<-resume
		})
		a := w.start("a")
		w.waitOwner(a, time.Second)
		w.propose(a)
		w.stop(a)

		w.bucket.before = pause
		paused := w.start("paused")
		<-claimed
		w.bucket.before = nil
		w.store.ExpireLeases()
		later := w.start("later")
		w.waitOwner(later, time.Second)
		w.fill(later, 12_000)
		w.waitFor("a snapshot", time.Second, func() bool { return len(w.refs()) == 1 })
		close(resume)
		w.waitFor("the paused replica to find out", time.Second, func() bool { return paused.Fault() != nil })
		require.ErrorIs(t, paused.Fault(), metalog.ErrFenced)
		w.waitFor("the paused replica to follow", 5*time.Second, func() bool { return paused.Fault() == nil })
		require.Zero(t, paused.owned.Load())
		w.propose(later)
		w.stop(later, paused)
	})
}

// A store that does not answer delays ownership, and ends nothing.
func TestReplica_WaitsForTheStoreBeforeItOwns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		w.propose(a)
		w.stop(a)
		_, tail := w.store.Indexes()

		w.bucket.hidden.Store(true)
		b := w.start("b")
		time.Sleep(time.Minute)
		require.Zero(t, b.owned.Load())
		require.ErrorIs(t, b.Fault(), snapshot.ErrUnavailable)
		_, now := w.store.Indexes()
		require.Equal(t, tail, now, "nothing was written")
		w.bucket.hidden.Store(false)
		w.waitOwner(b, 10*time.Second)
		require.Equal(t, wantNames(1), w.names(b))
		w.stop(b)
	})
}

// A bucket that is not the virtual cluster's says nothing about the metadata.
func TestReplica_ConfirmsTheBucketBeforeItRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		errWrong := errors.New("bucket of another cluster")
		w := newWorld(t, func(c *replica.Config) {
			c.ConfirmBucket = func(context.Context) error { return errWrong }
			c.Final = func(err error) bool { return errors.Is(err, errWrong) }
		})
		a := w.start("a")
		w.waitOwner(a, time.Second)
		w.stop(a)
		_, tail := w.store.Indexes()
		w.attempt(tail + 1)
		b := w.start("b")
		err := w.waitEnd(b)
		require.ErrorIs(t, err, errWrong)
		var older *replica.OlderError
		require.False(t, errors.As(err, &older))
	})
}
