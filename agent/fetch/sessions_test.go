package fetch

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
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
		require.Equal(t, kerr.FetchSessionIDNotFound, err, "only the holder finds a session")
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
	require.True(t, s.Update(session, add, []TopicKey{{Name: "a"}, {Name: "unknown"}}))
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
	require.True(t, tr.Told(marks(6)), "and so is the end of an error")
}

func TestSessions_Bounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sessions(t, SessionsConfig{Slots: 2, Bytes: 2*sessionBytes + 4*(trackedBytes+1)})
		one, _ := s.Open(Holder{Connection: 1}, false, tracked("a"))
		two, _ := s.Open(Holder{Connection: 2}, false, tracked("a"))
		three, _ := s.Open(Holder{Connection: 3}, false, tracked("a"))
		require.Nil(t, three, "no slot, and no stale session")
		replaced, first := s.Open(Holder{Connection: 1}, false, tracked("a"))
		require.NotNil(t, replaced, "a connection has one session")
		require.False(t, first)
		_, err := s.Get(one.ID, 1, Holder{Connection: 1}, false)
		require.Equal(t, kerr.FetchSessionIDNotFound, err)

		pass(3 * time.Minute)
		_, err = s.Get(two.ID, 1, Holder{Connection: 2}, false)
		require.Nil(t, err)
		three, _ = s.Open(Holder{Connection: 3}, false, tracked("a"))
		require.NotNil(t, three, "the stale session is evicted")
		_, err = s.Get(replaced.ID, 1, Holder{Connection: 1}, false)
		require.Equal(t, kerr.FetchSessionIDNotFound, err)

		require.True(t, s.Update(two, tracked("b", "c"), nil), "at the bound of bytes")
		require.False(t, s.Update(two, tracked("d"), nil), "one partition beyond it")
		_, err = s.Get(two.ID, 2, Holder{Connection: 2}, false)
		require.Equal(t, kerr.FetchSessionIDNotFound, err)
		require.EqualValues(t, sessionBytes+trackedBytes+1, s.mu.bytes)
		s.Leave(3)
		require.Zero(t, s.mu.bytes)
		require.Zero(t, s.mu.used.Len())
		require.Empty(t, s.mu.evictable)
	})
}

// TestSessions_EvictedBySize has the cases of Kafka's FetchSessionCacheShard.tryEvict without stale sessions.
func TestSessions_EvictedBySize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := sessions(t, SessionsConfig{Slots: 3})
		var open []*Session
		for n, names := range [][]string{{"a", "b", "c"}, {"a", "b"}, {"a", "b", "c", "d"}} {
			session, _ := s.Open(Holder{Connection: uint64(n)}, false, tracked(names...))
			open = append(open, session)
		}
		use := func(n int) *kerr.Error {
			_, err := s.Get(open[n].ID, open[n].epoch, open[n].holder, false)
			return err
		}
		refused := func(names ...string) bool {
			session, _ := s.Open(Holder{Connection: 9}, false, tracked(names...))
			return session == nil
		}
		require.True(t, refused("a", "b", "c", "d", "e"), "all are young")
		pass(evictAfter + time.Second)
		for n := range open { // all are in use, so none is stale
			require.Nil(t, use(n))
		}
		require.True(t, refused("a", "b"), "as large as the smallest session")
		require.False(t, refused("x", "y", "z"), "larger than the smallest session")
		require.Equal(t, kerr.FetchSessionIDNotFound, use(1))
		s.Leave(9)
		require.True(t, s.Update(open[0], tracked("e", "f"), nil)) // the one of four partitions is the smallest now
		require.False(t, refused("v", "w", "x", "y", "z"), "a slot is free")
		session, _ := s.Open(Holder{Connection: 10}, false, tracked("1", "2", "3", "4", "5"))
		require.NotNil(t, session)
		require.Equal(t, kerr.FetchSessionIDNotFound, use(2))
		require.Nil(t, use(0))
	})
}

func TestSessions_LargeSessionEvictsStaleOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		one := int64(sessionBytes + trackedBytes + 1)
		s := sessions(t, SessionsConfig{Bytes: 10 * one})
		for n := range uint64(10) {
			s.Open(Holder{Connection: n}, false, tracked("a"))
		}
		pass(evictAfter + time.Second)
		live, first := s.Open(Holder{Connection: 10}, false, tracked("a"))
		require.NotNil(t, live)
		require.True(t, first)
		large, _ := s.Open(Holder{Connection: 11}, false, tracked("a", "b", "c", "d", "e"))
		require.NotNil(t, large, "several stale sessions make room")
		require.LessOrEqual(t, s.mu.bytes, s.cfg.Bytes)
		_, err := s.Get(live.ID, 1, live.holder, false)
		require.Nil(t, err)
		require.Equal(t, int64(len(s.mu.open)), int64(s.mu.used.Len()))
	})
}

// TestSession_BytesOfNamesAndForgottenPartitions checks the memory of names, and of a large session that became small.
func TestSession_BytesOfNamesAndForgottenPartitions(t *testing.T) {
	long := strings.Repeat("n", 30_000) // as long as a request may name a topic
	s := sessions(t, SessionsConfig{Bytes: 100_000})
	session, _ := s.Open(Holder{Connection: 1}, false, tracked(long+"1", long+"2", long+"3"))
	require.NotNil(t, session)
	require.False(t, s.Update(session, tracked(long+"4"), nil))

	var names []string
	var keys []TopicKey
	for n := range 300 {
		names = append(names, strconv.Itoa(n))
		keys = append(keys, TopicKey{Name: strconv.Itoa(n)})
	}
	session, _ = s.Open(Holder{Connection: 1}, false, tracked(names...))
	require.NotNil(t, session)
	full := s.mu.bytes
	require.True(t, s.Update(session, nil, keys[:100]))
	require.Greater(t, s.mu.bytes, full*9/10, "slices and maps do not shrink")
	require.True(t, s.Update(session, nil, append(keys[100:290], keys[:10]...)))
	require.EqualValues(t, sessionBytes+10*trackedBytes+30, s.mu.bytes)
	require.LessOrEqual(t, cap(session.order), 16)
	require.Len(t, order(session), 10)
}

// TestSessions_RefusedWithoutAScan replaces all open sessions but the least recently used one by nil: a scan of them would panic.
func TestSessions_RefusedWithoutAScan(t *testing.T) {
	s := sessions(t, SessionsConfig{Slots: 1000})
	for n := range uint64(1000) {
		s.Open(Holder{Connection: n}, false, tracked("a"))
	}
	oldest := s.mu.used.Front().Value.(*Session)
	for sid := range s.mu.open {
		if sid != oldest.ID {
			s.mu.open[sid] = nil
		}
	}
	session, _ := s.Open(Holder{Connection: 1000}, false, tracked("a", "b"))
	require.Nil(t, session)
}

// TestSessions_Invariants runs random requests and compares the sums and orders with the open sessions.
func TestSessions_Invariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		random := rand.New(rand.NewPCG(1, 2))
		s := sessions(t, SessionsConfig{Slots: 8, Bytes: 8*sessionBytes + 60*trackedBytes})
		names := func() (some []string) {
			for range random.IntN(20) {
				some = append(some, strconv.Itoa(random.IntN(40)))
			}
			return some
		}
		for range 5000 {
			holder := Holder{Connection: random.Uint64N(16)}
			switch session := s.mu.held[holder.Connection]; {
			case random.IntN(20) == 0:
				s.Leave(holder.Connection)
			case session == nil || random.IntN(5) == 0:
				s.Open(holder, false, tracked(names()...))
			default:
				_, err := s.Get(session.ID, session.epoch, holder, false)
				require.Nil(t, err)
				var forgotten []TopicKey
				for _, name := range names() {
					forgotten = append(forgotten, TopicKey{Name: name})
				}
				s.Update(session, tracked(names()...), forgotten)
			}
			pass(time.Duration(random.IntN(40)) * time.Second)

			bytes := int64(0)
			for sid, session := range s.mu.open {
				require.Equal(t, sid, session.ID)
				require.Same(t, session, s.mu.held[session.holder.Connection])
				require.Len(t, session.tracked, len(session.order))
				require.Equal(t, session.size, len(session.order))
				require.Equal(t, session.memory(), session.bytes)
				if session.rank >= 0 {
					require.Same(t, session, s.mu.evictable[session.rank])
				}
				bytes += session.bytes
			}
			require.Equal(t, bytes, s.mu.bytes)
			require.LessOrEqual(t, bytes, s.cfg.Bytes)
			require.LessOrEqual(t, len(s.mu.open), 8)
			require.Equal(t, len(s.mu.open), s.mu.used.Len())
			require.LessOrEqual(t, len(s.mu.evictable), len(s.mu.open))
			last := time.Time{}
			for e := s.mu.used.Front(); e != nil; e = e.Next() {
				require.False(t, e.Value.(*Session).used.Before(last))
				last = e.Value.(*Session).used
			}
		}
		require.Positive(t, testutil.ToFloat64(s.metrics.evicted))
	})
}
