package lifecycle

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/errand"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore/mem"
)

func TestSetbacks_Pauses(t *testing.T) {
	s, start := setbacks[int]{}, time.Unix(1000, 0)
	now := start
	for _, pause := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		require.False(t, s.waits(7, now))
		s.note(7, now, time.Minute)
		require.True(t, s.waits(7, now.Add(pause*time.Minute-1)))
		now = now.Add(pause * time.Minute)
		require.Equal(t, now.Sub(start), s.oldest(now))
	}
	require.True(t, s.logDue(7, now))
	require.False(t, s.logDue(7, now.Add(time.Hour-1)))
	require.True(t, s.logDue(7, now.Add(time.Hour)))

	s.note(8, now, time.Minute)
	s.retain(func(n int) bool { return n == 8 })
	require.Len(t, s, 1, "what is gone takes no memory")
	require.Zero(t, s.oldest(now))
	s.clear(8)
	require.Empty(t, s)
	require.Zero(t, s.oldest(now))
}

// noAgents are Agents of which none is connected.
type noAgents struct{ Agents }

func (noAgents) DeleteBundles(context.Context, []id.Bundle) (map[id.Bundle]error, error) {
	return nil, errand.ErrNoAgent
}

// deadBundles returns a state with n dead bundles.
func deadBundles(t *testing.T, n uint32) *metadata.State {
	t.Helper()
	s := metadata.New()
	apply := func(c metadata.Command) {
		results := s.Apply(s.Index()+1, &metadata.Batch{Commands: []metadata.Command{c}}, nil, nil)
		require.NoError(t, results[0].Err)
	}
	apply(&metadata.OpenSession{Instance: "i"})
	for i := range n { // without batches, so they are dead at once
		var b commit.Builder
		b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: i + 1}, Bytes: 10})
		apply(&metadata.CommitBundle{Encoded: b.AppendTo(nil)})
	}
	return s
}

// Bundles that wait take no place of others in a round, and those that are tried again come last. What is dead no more is dropped.
func TestFindDead_BundlesHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(Config{Agents: noAgents{}, StoreTime: mem.New().Now})
		require.NoError(t, err)
		s := deadBundles(t, 6)
		names := make([]id.Bundle, 0, 6)
		for name := range s.DeadBundles() {
			names = append(names, name)
		}
		require.Len(t, names, 6)
		find := func(limit int) []id.Bundle { return l.findDead(s, s.Index(), s.Now(), limit).ripe }
		require.Equal(t, names[:3], find(3))
		for _, name := range names[:2] {
			l.heldBack.note(name, time.Now(), time.Minute)
		}
		l.heldBack.note(id.Submission{Session: 2, N: 1}.Bundle(), time.Now(), time.Minute)
		require.Equal(t, names[2:5], find(3))
		require.Len(t, l.heldBack, 2, "no more than dead bundles")
		time.Sleep(time.Minute)
		require.Equal(t, names[2:5], find(3))
		require.Equal(t, append(names[2:6:6], names[0]), find(5))
		require.Equal(t, append(names[2:6:6], names[:2]...), find(7))
	})
}

// Writers whose sweep failed come behind the others and have a share of each round. The one that has waited longest goes first.
func TestDue_WritersThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := New(Config{Agents: noAgents{}, StoreTime: mem.New().Now})
		require.NoError(t, err)
		s := metadata.New()
		for n := range id.Session(6) {
			b := &metadata.Batch{Commands: []metadata.Command{&metadata.OpenSession{Instance: string('a' + rune(n))}, &metadata.CloseSession{Session: n + 1}}}
			for _, r := range s.Apply(s.Index()+1, b, nil, nil) {
				require.NoError(t, r.Err)
			}
		}
		round := func(n int) (ids []id.Session) {
			due, again, count := l.due(s, s.Now()+l.cfg.Settings.OrphanAge.Milliseconds())
			require.Equal(t, 6, count)
			for _, w := range share(due, again, n) {
				ids = append(ids, w.ID)
			}
			return ids
		}
		require.Equal(t, []id.Session{1, 2, 3, 4}, round(4))
		for _, n := range []id.Session{2, 1} {
			l.unswept.note(n, time.Now(), time.Minute)
			time.Sleep(time.Second)
		}
		l.unswept.note(9, time.Now(), time.Minute)
		require.Equal(t, []id.Session{3, 4, 5, 6}, round(4), "the others wait")
		require.Len(t, l.unswept, 2, "no more than ended writers")
		time.Sleep(time.Minute)
		require.Equal(t, []id.Session{3, 4, 5, 2}, round(4), "one place in four is theirs")
		require.Equal(t, []id.Session{3, 4, 5, 6, 2}, round(5))
		require.Equal(t, []id.Session{3, 4, 5, 6, 2, 1}, round(100))
	})
}
