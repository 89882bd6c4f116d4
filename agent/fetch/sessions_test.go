package fetch

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/view"
)

func sessions(t *testing.T, cfg SessionsConfig) *Sessions {
	t.Helper()
	s, err := NewSessions(cfg)
	require.NoError(t, err)
	return s
}

func tracked(names ...string) []*Tracked {
	var out []*Tracked
	for _, n := range names {
		out = append(out, &Tracked{Key: TopicKey{Name: n}})
	}
	return out
}

func order(s *Session) (names []string) {
	for _, t := range s.Partitions() {
		names = append(names, t.Key.Name)
	}
	return names
}

func TestSessions_Epochs(t *testing.T) {
	s := sessions(t, SessionsConfig{})
	holder := Holder{Connection: 1, Principal: "User:a"}
	opened, first := s.Open(holder, false, tracked("a", "b", "a"))
	require.True(t, first)
	require.Positive(t, opened.ID)
	require.Equal(t, []string{"a", "b"}, order(opened))
	_, err := s.Get(opened.ID, 2, holder, false)
	require.Equal(t, kerr.InvalidFetchSessionEpoch, err)
	got, err := s.Get(opened.ID, 1, holder, false)
	require.Nil(t, err)
	require.Same(t, opened, got)
	_, err = s.Get(opened.ID, 1, holder, false)
	require.Equal(t, kerr.InvalidFetchSessionEpoch, err, "an epoch is used once")
	_, err = s.Get(opened.ID, 2, holder, true)
	require.Equal(t, kerr.FetchSessionTopicIDError, err)
	for _, other := range []Holder{{2, "User:a"}, {1, "User:b"}} {
		_, err = s.Get(opened.ID, 2, other, false)
		require.Equal(t, kerr.FetchSessionIDNotFound, err, "another's session is none")
		s.Close(opened.ID, other)
	}
	_, err = s.Get(opened.ID, 2, holder, false)
	require.Nil(t, err)
	s.Leave(1)
	_, err = s.Get(opened.ID, 3, holder, false)
	require.Equal(t, kerr.FetchSessionIDNotFound, err)
	require.Equal(t, int32(1), nextEpoch(1<<31-1))
}

func TestSessions_UpdateAndRotate(t *testing.T) {
	s := sessions(t, SessionsConfig{})
	session, _ := s.Open(Holder{}, false, tracked("a", "b", "c"))
	add := tracked("d", "b")
	add[1].Offset = 9
	require.True(t, s.Update(session, add, []TopicKey{{Name: "a"}, {Name: "nobody"}}))
	require.Equal(t, []string{"b", "c", "d"}, order(session))
	require.Equal(t, int64(9), session.Partitions()[0].Offset)
	session.Rotate(func(i int) bool { return i == 0 })
	require.Equal(t, []string{"c", "d", "b"}, order(session))
}

func TestTracked_Told(t *testing.T) {
	tr := &Tracked{marks: noMarks}
	marks := func(hw int64) *Result { return &Result{Marks: view.Watermarks{HighWatermark: hw}} }
	require.True(t, tr.Told(marks(5)))
	require.False(t, tr.Told(marks(5)))
	require.True(t, tr.Told(marks(6)))
	require.True(t, tr.Told(&Result{Marks: view.Watermarks{HighWatermark: 6}, Size: 1}))
	failed := &Result{}
	failed.fail(kerr.CorruptMessage)
	require.True(t, tr.Told(failed))
	require.True(t, tr.Told(failed), "errors are always news")
	require.True(t, tr.Told(marks(6)), "and so is their end")
}

func TestSessions_Bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sessions(t, SessionsConfig{Slots: 2, Partitions: 4})
		one, _ := s.Open(Holder{Connection: 1}, false, tracked("a"))
		two, _ := s.Open(Holder{Connection: 2}, false, tracked("a"))
		three, _ := s.Open(Holder{Connection: 3}, false, tracked("a"))
		require.Nil(t, three, "no slot, and nobody idle")
		replaced, first := s.Open(Holder{Connection: 1}, false, tracked("a"))
		require.NotNil(t, replaced, "a connection has one session")
		require.False(t, first)
		_, err := s.Get(one.ID, 1, Holder{Connection: 1}, false)
		require.Equal(t, kerr.FetchSessionIDNotFound, err)

		pass(3 * time.Minute)
		_, err = s.Get(two.ID, 1, Holder{Connection: 2}, false)
		require.Nil(t, err)
		three, _ = s.Open(Holder{Connection: 3}, false, tracked("a"))
		require.NotNil(t, three, "the one idle for longest makes room")
		_, err = s.Get(replaced.ID, 1, Holder{Connection: 1}, false)
		require.Equal(t, kerr.FetchSessionIDNotFound, err)

		require.False(t, s.Update(two, tracked("b", "c", "d"), nil), "too many partitions")
		_, err = s.Get(two.ID, 2, Holder{Connection: 2}, false)
		require.Equal(t, kerr.FetchSessionIDNotFound, err)
		require.Equal(t, 1, s.mu.partitions)
	})
}
