package metadata

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/nightly"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestSubmissions_InAnyOrder hands submissions in in random orders, several times each, over snapshots and with the
// session's end now and then: each has one answer, the first, whatever comes later, and none is settled before
// those below.
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
			before, _ := s.Session(1)
			n := uint32(max(1, int(before.NextN)-4+rng.IntN(7)))
			h := commit.Header{Submission: id.Submission{Session: 1, N: n}, Bytes: 100}
			p := encodeCommit(h, section{"t", 0, []commit.Batch{{Records: 1, Bytes: 61, ProducerID: -1}}})
			if seed%2 == 0 && !closed && step > count {
				closed = true
				s.Apply(s.index+1, &Batch{Commands: []Command{&CloseSession{Session: 1}}}, nil, nil)
			}
			r := s.Apply(s.index+1, &Batch{Commands: []Command{&CommitBundle{Encoded: p}}}, nil, nil)[0]
			switch {
			case answers[n] != nil:
				require.Equal(t, answers[n], r.Value)
			case closed:
				require.Equal(t, resultSessionClosed, r.Value)
			case n > before.NextN:
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
		require.Greater(t, len(answers), count/10)
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
	for n := next; n < next+300; n++ {
		got, ok := s.Settled(id.Submission{Session: 1, N: n})
		if require.Equal(t, e.Closed, ok); ok {
			require.Equal(t, resultSessionClosed, got)
		}
	}
}

// TestSubmissions_ResultsAreBounded: results of an agent that acknowledges nothing are dropped, oldest first.
func TestSubmissions_ResultsAreBounded(t *testing.T) {
	s := newMachine()
	s.Apply(1, &Batch{Commands: []Command{&OpenSession{Instance: "i"}}}, nil, nil)
	for n := uint32(1); n <= maxResults+10; n++ {
		r := s.Apply(s.index+1, &Batch{Commands: []Command{commitOf(1, n, 0)}}, nil, nil)
		require.NoError(t, r[0].Err)
	}
	for n, want := range map[uint32]commit.Status{10: commit.Forgotten, 11: commit.Settled, maxResults + 10: commit.Settled} {
		r, ok := s.Settled(id.Submission{Session: 1, N: n})
		require.True(t, ok)
		require.Equal(t, want, r.Status, "%d", n)
	}
}
