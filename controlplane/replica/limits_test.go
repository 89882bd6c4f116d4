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

// TestReplica_Limits: each owner sets its own limits before it takes a command of an agent, and others within a Tick after they change. Refusals follow the limits of the state, and a
// replay of the log, which knows no configuration, has the hash of the owner's state.
func TestReplica_Limits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		topics := map[string]*atomic.Int64{"a": {}, "b": {}}
		topics["a"].Store(3)
		topics["b"].Store(4)
		w := newWorld(t, func(c *replica.Config) {
			of := topics[c.Replica]
			c.Limits = func() metadata.Limits { return metadata.Limits{metadata.LimitTopics: of.Load()} }
		})
		a := w.start("a")
		w.waitOwner(a, time.Minute)
		b := w.start("b")
		for range 3 {
			w.propose(a)
		}
		w.refused(a, 3)
		w.sameReplayed(a)

		w.stop(a)
		w.waitOwner(b, time.Minute)
		w.propose(b)
		w.refused(b, 4)
		w.sameReplayed(b)

		a = w.start("a")
		time.Sleep(time.Second)
		w.stop(b)
		w.waitOwner(a, time.Minute)
		w.refused(a, 3)
		require.Equal(t, wantNames(4), w.names(a), "a state above its limit serves")
		w.sameReplayed(a)

		topics["a"].Store(5) // the owner stays
		time.Sleep(11 * time.Second)
		w.propose(a)
		w.refused(a, 5)
		w.sameReplayed(a)
		w.stop(a)
	})
}

// TestReplica_LimitsWaitForTheVersion: the state has no limits while a replica cannot run the version that knows them.
func TestReplica_LimitsWaitForTheVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all atomic.Uint32
		all.Store(metadata.LimitsVersion - 1)
		w := newWorld(t, func(c *replica.Config) {
			c.Version = all.Load
			c.Limits = func() metadata.Limits { return metadata.Limits{metadata.LimitTopics: 1} }
		})
		a := w.start("a")
		w.waitOwner(a, time.Minute)
		w.propose(a)
		time.Sleep(time.Minute)
		w.propose(a)
		all.Store(metadata.LimitsVersion)
		time.Sleep(21 * time.Second)
		w.refused(a, 1)
		w.stop(a)
	})
}

// refused proposes one more topic and expects the owner's state to refuse it at a limit.
func (w *world) refused(n *node, limit int64) {
	w.t.Helper()
	result, _, err := n.Owner().Propose(w.t.Context(), topic(w.topics+1))
	require.NoError(w.t, err)
	require.Equal(w.t, &metadata.LimitError{Kind: metadata.LimitTopics, Limit: limit}, result.Err)
}

// sameReplayed compares the owner's state with that of the log, applied from its beginning.
func (w *world) sameReplayed(n *node) {
	w.t.Helper()
	var want *metadata.State
	_, err := n.Owner().ReadFrozen(func(s *metadata.State) { want = s })
	require.NoError(w.t, err)
	l, _, err := w.store.Open("observer", metalog.Config{})
	require.NoError(w.t, err)
	s, asm := metadata.New(), metalog.NewAssembler(0)
	for s.Index() < want.Index() {
		entries, _, err := l.Read(w.t.Context(), asm.Next(), 1<<20)
		require.NoError(w.t, err)
		for _, e := range entries {
			payload, done, err := asm.Add(e)
			require.NoError(w.t, err)
			if done && e.Index <= want.Index() {
				batch, err := metadata.ParseBatch(payload)
				require.NoError(w.t, err)
				s.Apply(e.Index, batch, nil, nil)
			}
		}
	}
	require.Equal(w.t, want.Hash(), s.Snapshot().Hash())
}
