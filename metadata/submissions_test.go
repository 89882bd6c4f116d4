package metadata

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// overtakenState is a state with one session open, in which submissions 3 and 6 overtook 2, 4 and 5, and one
// closed, in which 2 overtook 1.
func overtakenState(t testing.TB) *machine {
	t.Helper()
	s := newMachine()
	for i, c := range []Command{
		&OpenSession{Instance: "i"},
		&OpenSession{Instance: "j"},
		overtaking(1, 1), overtaking(1, 6), overtaking(1, 3), overtaking(2, 2),
		&CloseSession{Session: 2},
	} {
		r := s.Apply(s.index+1, &Batch{Now: int64(i), Commands: []Command{c}}, nil, nil)
		require.NoError(t, r[0].Err, "command %d", i)
	}
	return s
}

// overtaking is a commit without batches that may overtake others.
func overtaking(session id.Session, n uint32) *CommitBundle {
	return &CommitBundle{Encoded: encodeCommit(commit.Header{Submission: id.Submission{Session: session, N: n}, Overtakes: true})}
}

func TestSnapshotOfOvertaken_GoldenAndRoundTrip(t *testing.T) {
	s := overtakenState(t)
	var buf bytes.Buffer
	require.NoError(t, s.snapshot().Encode(&buf))
	golden(t, "snapshot-overtaken.hex", buf.Bytes())
	got := restore(t, s)
	open, _ := got.Session(1)
	require.EqualValues(t, 2, open.NextN)
	require.Equal(t, []uint32{3, 6}, open.Ahead)
	next := &Batch{Commands: []Command{overtaking(1, 2), &AbandonSubmission{Submission: id.Submission{Session: 1, N: 4}}}}
	require.Equal(t, s.Apply(s.index+1, next, nil, nil), got.Apply(got.index+1, next, nil, nil))
	require.Equal(t, s.Hash(), got.Hash())
	open, _ = got.Session(1)
	require.EqualValues(t, 5, open.NextN)
	require.Equal(t, []uint32{6}, open.Ahead)
}

func TestSnapshotOfOvertaken_Refused(t *testing.T) {
	result := func(n uint32) []byte {
		p := binary.AppendUvarint([]byte{byte(recordResult)}, uint64(n))
		return append(p, 3, 1, byte(commit.Settled), 0)
	}
	good := payload(overtakenState(t))
	require.Equal(t, 1, bytes.Count(good, result(6)))
	for name, n := range map[string]uint32{"the hole itself": 2, "too far": 2 + MaxAhead} {
		_, err := decode(bytes.NewReader(seal(bytes.Replace(good, result(6), result(n), 1))))
		require.ErrorIs(t, err, ErrMalformedSnapshot, name)
	}
	_, err := decode(bytes.NewReader(seal(bytes.Replace(good, result(6), result(1+MaxAhead), 1))))
	require.NoError(t, err)
	s := overtakenState(t)
	_, e := first(&s.sessions)
	e.closed = true
	_, err = decode(bytes.NewReader(seal(payload(s))))
	require.ErrorIs(t, err, ErrMalformedSnapshot)
}

// TestSubmissions_InAnyOrder hands submissions in in random orders, several times each, over snapshots and with the
// session's end now and then: each has one answer, the first, whatever comes later; holes are never answered before they
// are settled or the session is closed.
func TestSubmissions_InAnyOrder(t *testing.T) {
	const count = 200
	seeds := uint64(4)
	if nightly.On() {
		seeds = 20
	}
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(seed, 11))
		s := newMachine()
		s.Apply(1, &Batch{Commands: []Command{&CreateTopic{ID: topicID("t"), Name: "t", Partitions: 1}, &OpenSession{Instance: "i"}}}, nil, nil)
		answers := map[uint32]*commit.Result{}
		closed := false
		for step := range 3 * count {
			n := uint32(min(step/3, count-30) + 1 + rng.IntN(30))
			h := commit.Header{Submission: id.Submission{Session: 1, N: n}, Bytes: 100, Overtakes: rng.IntN(3) > 0}
			p := encodeCommit(h, section{"t", 0, []commit.Batch{{Records: 1, Bytes: 61, ProducerID: -1}}})
			if seed%2 == 0 && !closed && step > count {
				closed = true
				s.Apply(s.index+1, &Batch{Commands: []Command{&CloseSession{Session: 1}}}, nil, nil)
			}
			before, _ := s.Session(1)
			r := s.Apply(s.index+1, &Batch{Commands: []Command{&CommitBundle{Encoded: p}}}, nil, nil)[0]
			switch {
			case answers[n] != nil:
				require.Equal(t, answers[n], r.Value)
			case closed:
				require.Equal(t, resultSessionClosed, r.Value)
			case n > before.NextN && !h.Overtakes:
				require.ErrorIs(t, r.Err, ErrEarly)
			default:
				require.NoError(t, r.Err)
				answers[n] = r.Value.(*commit.Result)
				require.Equal(t, commit.Settled, answers[n].Status)
			}
			if rng.IntN(5) == 0 {
				s = restore(t, s)
			}
			requireAnswers(t, s, answers)
		}
		require.Greater(t, len(answers), count/4)
	}
}

// requireAnswers compares what is settled with the answers that were given.
func requireAnswers(t *testing.T, s *machine, answers map[uint32]*commit.Result) {
	t.Helper()
	e, _ := s.Session(1)
	next := uint32(1)
	for answers[next] != nil {
		next++
	}
	if !e.Closed {
		require.Equal(t, next, e.NextN)
	}
	var ahead []uint32
	for n := next + 1; n < next+300; n++ {
		got, ok := s.Settled(id.Submission{Session: 1, N: n})
		switch {
		case answers[n] != nil:
			require.Equal(t, answers[n], got)
			ahead = append(ahead, n)
		case e.Closed:
			require.Equal(t, resultSessionClosed, got)
		default:
			require.False(t, ok)
		}
	}
	if !e.Closed {
		require.Equal(t, ahead, e.Ahead)
	}
}

// TestSubmissions_NoneIsForgottenAboveAHole: results of an agent that acknowledges nothing are dropped, oldest first, and
// never those above a hole, however many there are.
func TestSubmissions_NoneIsForgottenAboveAHole(t *testing.T) {
	s := newMachine()
	s.Apply(1, &Batch{Commands: []Command{&OpenSession{Instance: "i"}}}, nil, nil)
	for n := uint32(1); n <= maxResults; n++ {
		s.Apply(s.index+1, &Batch{Commands: []Command{overtaking(1, n)}}, nil, nil)
	}
	const hole = maxResults + 1
	for n := uint32(hole + MaxAhead - 1); n > hole; n-- {
		r := s.Apply(s.index+1, &Batch{Commands: []Command{overtaking(1, n)}}, nil, nil)
		require.NoError(t, r[0].Err)
	}
	e, _ := s.Session(1)
	require.EqualValues(t, hole, e.NextN)
	require.Len(t, e.Ahead, MaxAhead-1)
	for n, want := range map[uint32]commit.Status{1: commit.Forgotten, MaxAhead - 1: commit.Forgotten, MaxAhead: commit.Settled, hole + 1: commit.Settled} {
		r, ok := s.Settled(id.Submission{Session: 1, N: n})
		require.True(t, ok)
		require.Equal(t, want, r.Status, "%d", n)
	}
	s.Apply(s.index+1, &Batch{Commands: []Command{overtaking(1, hole)}}, nil, nil)
	e, _ = s.Session(1)
	require.EqualValues(t, hole+MaxAhead, e.NextN)
	require.Nil(t, e.Ahead)
}
