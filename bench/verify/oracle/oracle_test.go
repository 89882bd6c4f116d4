package oracle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stage is a history of one topic with a clock that ticks by hand.
type stage struct {
	*History
	t     *testing.T
	found *Findings
	now   time.Time
	sent  map[ID]Seen // without offsets
}

func newStage(t *testing.T, change func(*Config)) *stage {
	t.Helper()
	s := &stage{t: t, now: time.Unix(1_700_000_000, 0), sent: map[ID]Seen{}}
	s.found = NewFindings(func() time.Time { return s.now }, nil)
	cfg := Config{Topic: "t", Run: 7, Keys: 3, Partitions: 2, Producers: 2, Now: func() time.Time { return s.now }, Findings: s.found}
	if change != nil {
		change(&cfg)
	}
	s.History = New(cfg)
	return s
}

// send sends n records of producer 0 to partition 0 in a transaction (-1: none).
func (s *stage) send(n int, txn int64) (ids []ID) {
	for range n {
		id, key, value := s.Send(0, 0, txn, 50)
		s.sent[id] = Seen{Key: key, Value: value}
		ids = append(ids, id)
	}
	return ids
}

func (s *stage) at(id ID, offset int64) Seen {
	seen := s.sent[id]
	seen.Offset = offset
	return seen
}

// want checks that these classes were found, and no other.
func (s *stage) want(classes ...Class) {
	s.t.Helper()
	var got []Class
	for class := range s.found.Counts() {
		got = append(got, class)
	}
	slices.Sort(got)
	slices.Sort(classes)
	require.Equal(s.t, classes, got, "%v", s.found.Kept())
}

func (s *stage) first() *Reader { return s.NewReader(ReaderConfig{Name: "first", First: true}) }

func TestReader_FindsEachFault(t *testing.T) {
	cases := []struct {
		name string
		play func(s *stage, ids []ID, r *Reader) // ids: three, acknowledged at 0, 1, 2
		want []Class
	}{
		{"nothing", func(s *stage, ids []ID, r *Reader) {
			for i, id := range ids {
				r.Read(0, s.at(id, int64(i)))
			}
		}, nil},
		{"the last one never comes", func(s *stage, ids []ID, r *Reader) {
			r.Read(0, s.at(ids[0], 0))
			r.Read(0, s.at(ids[1], 1))
		}, []Class{Lost}},
		{"one is skipped", func(s *stage, ids []ID, r *Reader) {
			r.Read(0, s.at(ids[0], 0))
			r.Read(0, s.at(ids[2], 2))
		}, []Class{Gap, Lost}},
		{"again", func(s *stage, ids []ID, r *Reader) {
			for i, id := range append(ids, ids[1]) {
				r.Read(0, s.at(id, int64(i)))
			}
		}, []Class{Duplicate}},
		{"exchanged", func(s *stage, ids []ID, r *Reader) {
			r.Read(0, s.at(ids[0], 0))
			r.Read(0, s.at(ids[2], 1))
			r.Read(0, s.at(ids[1], 2))
		}, []Class{Reordered, Reuse, WrongOffset}},
		{"other bytes", func(s *stage, ids []ID, r *Reader) {
			r.Read(0, s.at(ids[0], 0))
			changed := s.at(ids[1], 1)
			changed.Value = slices.Clone(changed.Value)
			changed.Value[49] ^= 1
			r.Read(0, changed)
			r.Read(0, s.at(ids[2], 2))
		}, []Class{Lost, Phantom}},
		{"other key", func(s *stage, ids []ID, r *Reader) {
			changed := s.at(ids[0], 0)
			changed.Key = []byte("k")
			r.Read(0, changed)
			r.Read(0, s.at(ids[1], 1))
			r.Read(0, s.at(ids[2], 2))
		}, []Class{Lost, Phantom}},
		{"never sent", func(s *stage, ids []ID, r *Reader) {
			for i, id := range ids {
				r.Read(0, s.at(id, int64(i)))
			}
			id := ID{Seq: 3, Txn: -1}
			r.Read(0, Seen{Offset: 3, Key: Key(id, 3), Value: Value(7, id, 50)})
		}, []Class{Phantom}},
		{"offset goes back", func(s *stage, ids []ID, r *Reader) {
			for i, id := range ids {
				r.Read(0, s.at(id, int64(i)))
			}
			r.Read(0, s.at(ids[2], 2))
		}, []Class{Reuse}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, nil)
			ids := s.send(3, -1)
			for i, id := range ids {
				s.Acked(id, int64(i))
			}
			r := s.first()
			c.play(s, ids, r)
			r.Judge(true)
			s.want(c.want...)
			told := s.found.Total()
			r.Judge(true)
			require.Equal(t, told, s.found.Total(), "each is told once")
		})
	}
}

func TestHistory_OffsetsOfAcknowledgements(t *testing.T) {
	t.Run("read first, acknowledged at another", func(t *testing.T) {
		s := newStage(t, nil)
		id := s.send(1, -1)[0]
		s.first().Read(0, s.at(id, 0))
		s.Acked(id, 5)
		s.want(WrongOffset)
	})
	t.Run("read first, acknowledged at the same", func(t *testing.T) {
		s := newStage(t, nil)
		id := s.send(1, -1)[0]
		s.first().Read(0, s.at(id, 0))
		require.Equal(t, 1, s.Held())
		s.Acked(id, 0)
		require.Zero(t, s.Held())
		s.want()
	})
	t.Run("one offset acknowledged twice", func(t *testing.T) {
		s := newStage(t, nil)
		ids := s.send(2, -1)
		s.Acked(ids[0], 4)
		s.Acked(ids[1], 4)
		s.want(Reuse)
	})
	t.Run("acknowledged without an offset", func(t *testing.T) {
		s := newStage(t, nil)
		id := s.send(1, -1)[0]
		s.Acked(id, -1)
		r := s.first()
		r.Judge(true)
		s.want(Lost)
	})
	t.Run("unknown outcomes may be there, late, or not", func(t *testing.T) {
		s := newStage(t, nil)
		ids := s.send(4, -1)
		s.Failed(ids[0])
		s.Failed(ids[1])
		s.Acked(ids[2], 0)
		r := s.first() // ids[3] is not answered
		r.Read(0, s.at(ids[2], 0))
		r.Read(0, s.at(ids[0], 1))
		r.Judge(true)
		s.want()
		require.EqualValues(t, 3, s.Counts().Unknown)
		r.Read(0, s.at(ids[0], 2))
		s.want(Duplicate)
	})
	t.Run("duplicates that are allowed are counted", func(t *testing.T) {
		s := newStage(t, func(c *Config) { c.Duplicates = true })
		id := s.send(1, -1)[0]
		s.Acked(id, 1)
		r := s.first()
		r.Read(0, s.at(id, 0))
		r.Read(0, s.at(id, 1))
		r.Judge(true)
		s.want()
		require.EqualValues(t, 1, s.Counts().Duplicates)
		require.Zero(t, s.Held())
	})
}

func TestReader_Transactions(t *testing.T) {
	cases := []struct {
		name string
		end  func(s *stage, txn int64)
		read int // how many of the two records a reader of committed ones gets
		want []Class
	}{
		{"open and read", func(*stage, int64) {}, 1, []Class{AbortedRead}},
		{"aborted and read", func(s *stage, txn int64) { s.Aborted(0, txn) }, 2, []Class{AbortedRead}},
		{"aborted and not read", func(s *stage, txn int64) { s.Aborted(0, txn) }, 0, nil},
		{"committed and read", func(s *stage, txn int64) { s.Committed(0, txn) }, 2, nil},
		{"committed and lost", func(s *stage, txn int64) { s.Committed(0, txn) }, 0, []Class{Lost}},
		{"committed and torn", func(s *stage, txn int64) { s.Committed(0, txn) }, 1, []Class{Torn}},
		{"not answered and there", func(s *stage, txn int64) { s.Committing(0, txn) }, 2, nil},
		{"not answered and not there", func(s *stage, txn int64) { s.Committing(0, txn) }, 0, nil},
		{"not answered and torn", func(s *stage, txn int64) { s.Committing(0, txn) }, 1, []Class{Torn}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, nil)
			txn := s.Begin(0)
			ids := s.send(2, txn)
			for i, id := range ids {
				s.Acked(id, int64(i))
			}
			c.end(s, txn)
			next := s.Begin(0)
			after := s.send(1, next)[0]
			s.Acked(after, 3)
			s.Committed(0, next)
			r := s.NewReader(ReaderConfig{Name: "pass", View: Committed})
			for i, id := range ids[:c.read] {
				r.Read(0, s.at(id, int64(i)))
			}
			r.Read(0, Seen{Offset: 2, Control: true})
			r.Read(0, s.at(after, 3))
			r.Judge(true)
			s.want(c.want...)
		})
	}
}

// A second reading that finds other records at the same offsets, each of them right by itself.
func TestReader_ComparesReadings(t *testing.T) {
	s := newStage(t, nil)
	ids := s.send(2*blockOffsets, -1)
	other := make([]ID, 0, len(ids))
	for range ids {
		id, key, value := s.Send(1, 0, -1, 50)
		s.sent[id] = Seen{Key: key, Value: value}
		other = append(other, id)
	}
	for name, from := range map[string][]ID{"first": ids, "second": ids} {
		r := s.NewReader(ReaderConfig{Name: name})
		for i, id := range from {
			r.Read(0, s.at(id, int64(i)))
		}
	}
	s.want()
	require.EqualValues(t, 1, s.Counts().Compared)
	r := s.NewReader(ReaderConfig{Name: "third"})
	for i, id := range other {
		r.Read(0, s.at(id, int64(i)))
	}
	s.want(Reuse)
}

func TestReader_GroupMayGetAgain(t *testing.T) {
	s := newStage(t, nil)
	ids := s.send(4, -1)
	for i, id := range ids {
		s.Acked(id, int64(i))
	}
	r := s.NewReader(ReaderConfig{Name: "group", Group: true})
	for _, i := range []int64{0, 1, 0, 1, 3} {
		r.Read(0, s.at(ids[i], i))
	}
	require.EqualValues(t, 1, r.Behind())
	require.EqualValues(t, 2, r.Redelivered())
	s.want()
	r.Judge(true)
	s.want(Lost)
}

func TestHistory_Ends(t *testing.T) {
	s := newStage(t, nil)
	id := s.send(1, -1)[0]
	before := s.Known(0, Uncommitted)
	s.Acked(id, 9)
	s.Told(0, before, 0, "a broker that was asked before", s.now)
	s.want()
	known := s.Known(0, Uncommitted)
	require.EqualValues(t, 10, known.End())
	s.Told(0, known, 12, "a broker", s.now)
	s.Told(0, known, 10, "another that was asked at the same time", s.now)
	s.want()
	s.Told(0, s.Known(0, Uncommitted), 11, "a third", s.now)
	require.EqualValues(t, 1, s.found.Counts()[Stale])
	s.Empty(0, s.Known(0, Uncommitted), 9, "a fetch", s.now)
	s.OutOfRange(0, s.Known(0, Uncommitted), 9, "a fetch", s.now)
	require.EqualValues(t, 3, s.found.Counts()[Stale])
	require.EqualValues(t, 0, s.Known(0, Committed).End(), "last stable offsets are another matter")
}

func TestGroup(t *testing.T) {
	t.Run("commits", func(t *testing.T) {
		s := newStage(t, nil)
		g := s.NewGroup("g")
		g.Told(0, g.Known()[0], -1, "nothing was committed", s.now)
		g.Committed(0, 10, "m")
		known := g.Known()[0]
		g.Committed(0, 8, "m") // answered later, sent before
		require.Equal(t, known, g.Known()[0])
		g.Told(0, known, 10, "a broker", s.now)
		g.Told(0, known, 11, "a commit under way", s.now)
		s.want()
		g.Told(0, known, 9, "a broker", s.now)
		g.Told(0, known, -1, "a broker", s.now)
		s.want(LostCommit)
		require.EqualValues(t, 2, s.found.Counts()[LostCommit])
	})
	t.Run("two members of a generation", func(t *testing.T) {
		s := newStage(t, nil)
		g := s.NewGroup("g")
		g.Assigned(1, "a", []int32{0, 1})
		g.Assigned(2, "a", []int32{0})
		g.Assigned(2, "b", []int32{1})
		s.want()
		g.Assigned(2, "c", []int32{1})
		s.want(TwoOwners)
		require.EqualValues(t, 2, g.Rebalances())
	})
	t.Run("nobody", func(t *testing.T) {
		s := newStage(t, nil)
		g := s.NewGroup("g")
		half := map[string][]int32{"a": {0}, "b": {}}
		g.Described(half)
		s.now = s.now.Add(unownedFor)
		g.Described(half)
		g.Described(map[string][]int32{"a": {0}, "b": {1}})
		g.Described(half)
		s.now = s.now.Add(unownedFor)
		g.Described(half)
		s.want()
		s.now = s.now.Add(time.Second)
		g.Described(half)
		g.Described(half)
		s.want(NoOwner)
		require.EqualValues(t, 1, s.found.Counts()[NoOwner], "told once")
	})
}

// What is kept does not grow with the records.
func TestHistory_ForgetsWhatIsSettled(t *testing.T) {
	s := newStage(t, nil)
	r := s.first()
	const records = 10_000
	for i := range int64(records) {
		id, key, value := s.Send(0, 0, -1, 40)
		if i%2 == 0 {
			s.Acked(id, i)
		}
		r.Read(0, Seen{Offset: i, Key: key, Value: value})
		if i%2 == 1 {
			s.Acked(id, i)
		}
	}
	require.Zero(t, s.Held())
	require.Empty(t, s.mu.streams[0].pending)
	require.Empty(t, r.gaps[0])
	require.Len(t, s.mu.partitions[0].digests[Uncommitted], (records-1)/blockOffsets)
	s.want()
}

func TestFindings_KeepsTheFirst(t *testing.T) {
	told := 0
	f := NewFindings(time.Now, func(Finding) { told++ })
	for i := range 3 * perClass {
		f.Add(Finding{Class: Lost, Offset: int64(i), Evidence: fmt.Sprint(i)})
	}
	require.Len(t, f.Kept(), perClass)
	require.Equal(t, perClass, told)
	require.EqualValues(t, 3*perClass, f.Total())
}
