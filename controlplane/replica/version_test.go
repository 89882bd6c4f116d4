package replica_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// version gives that of the owner's state.
func (w *world) version(n *node) (version uint32) {
	w.t.Helper()
	_, err := n.Owner().Read(func(s *metadata.State) { version = s.Version() })
	require.NoError(w.t, err)
	return version
}

// TestReplica_VersionRisesWhenAllCanRunIt: a state keeps its version through owner changes while one replica could not run
// the next, or while it is not known whether all could; it rises once all can, at one command for all; and it never falls,
// whatever is said later.
func TestReplica_VersionRisesWhenAllCanRunIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all atomic.Uint32 // what all replicas can run
		w := newWorld(t, func(c *replica.Config) { c.Version = all.Load })
		all.Store(metadata.MinVersion)
		a := w.start("a")
		w.waitOwner(a, time.Minute)
		b := w.start("b")
		w.propose(a)
		time.Sleep(time.Minute)
		require.Equal(t, metadata.MinVersion, w.version(a))

		all.Store(0) // not known
		w.stop(a)
		w.waitOwner(b, time.Minute)
		a = w.start("a")
		time.Sleep(time.Minute)
		require.Equal(t, metadata.MinVersion, w.version(b))

		all.Store(metadata.MaxVersion)
		w.waitFor("the version to rise", 11*time.Second, func() bool { return w.version(b) == metadata.MaxVersion })
		w.propose(b)

		all.Store(metadata.MinVersion)
		w.stop(b)
		w.waitOwner(a, time.Minute)
		time.Sleep(time.Minute)
		require.Equal(t, metadata.MaxVersion, w.version(a))
		require.Equal(t, wantNames(2), w.names(a))
		w.stop(a)
	})
}

// TestReplica_LimitsProducers: the bound of producers is that of the owner.
func TestReplica_LimitsProducers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *replica.Config) { c.MaxProducers = 77 })
		a := w.start("a")
		w.waitOwner(a, time.Minute)
		limit := func() (limit int64) {
			_, err := a.Owner().Read(func(s *metadata.State) { limit = s.ProducerLimit() })
			require.NoError(t, err)
			return limit
		}
		w.waitFor("the bound", 21*time.Second, func() bool { return limit() == 77 })
		w.stop(a)
	})
}

// TestReplica_VersionRisesAtAnOwnerChange: the owner that raises the version is stopped at each step of it; the next one
// goes on, with the old version or with the new one, and raises it if need be.
func TestReplica_VersionRisesAtAnOwnerChange(t *testing.T) {
	for _, after := range []time.Duration{0, 9990 * time.Millisecond, 10 * time.Second, 10010 * time.Millisecond} {
		t.Run(after.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var all atomic.Uint32
				all.Store(metadata.MinVersion)
				w := newWorld(t, func(c *replica.Config) { c.Version = all.Load })
				a := w.start("a")
				w.waitOwner(a, time.Minute)
				b := w.start("b")
				w.propose(a)
				all.Store(metadata.MaxVersion)
				time.Sleep(after)
				w.stop(a)
				w.waitOwner(b, time.Minute)
				w.propose(b)
				require.Equal(t, metadata.MaxVersion, w.version(b))
				require.Equal(t, wantNames(2), w.names(b))
				w.stop(b)
			})
		})
	}
}

// TestReplica_RefusesANewerState: a program that is older than the state stops, and says why, before it applies anything of
// it; it neither owns the log nor changes it.
func TestReplica_RefusesANewerState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.start("a")
		w.waitOwner(a, time.Minute)
		w.propose(a)
		w.stop(a)
		l, _, err := w.store.Open("newer", metalog.Config{})
		require.NoError(t, err)
		tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: "newer", Address: "newer:1"})
		require.NoError(t, err)
		raise := metadata.Batch{Now: time.Now().UnixMilli(), Commands: []metadata.Command{
			&metadata.RaiseVersion{Version: metadata.MaxVersion + 1},
		}}
		tail := tenure.Tail() + 1
		_, err = tenure.Append(t.Context(), tail, metadata.AppendBatch(nil, &raise))
		require.NoError(t, err)
		require.NoError(t, tenure.Resign(t.Context()))

		b := w.start("b")
		err = <-b.ended
		require.ErrorIs(t, err, metadata.ErrUnsupported)
		require.ErrorContains(t, err, "start a newer program")
		require.Zero(t, b.owned.Load())
		status, err := l.Status(t.Context())
		require.NoError(t, err)
		require.Equal(t, tail, status.Tail)
	})
}
