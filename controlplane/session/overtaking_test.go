package session

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// overtake hands in submission n, one that overtakes, and gives the channel for its fault, nil once it is settled.
func (w *sequenceWorld) overtake(n uint32) <-chan *api.Error {
	fault := make(chan *api.Error, 1)
	var b commit.Builder
	b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: n}, Overtakes: true})
	s := submission{n: n, command: &metadata.CommitBundle{Encoded: b.AppendTo(nil)}, bytes: 20, overtakes: true}
	w.submit(s, func(_ *commit.Result, _ uint64, f *api.Error) { fault <- f })
	synctest.Wait()
	return fault
}

// at gives the log's last index.
func (w *sequenceWorld) at() uint64 {
	index, err := w.sequence.t.owner.Read(func(*metadata.State) {})
	require.NoError(w.t, err)
	return index
}

// What overtakes is settled at once, what does not is held, and the order goes on over both when what was missing comes.
func TestSequence_Overtakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSequenceWorld(t)
		third, fourth := w.overtake(3), w.overtake(4)
		held := w.settle(5)
		require.Nil(t, <-third)
		require.Nil(t, <-fourth)
		require.Nil(t, <-w.overtake(3), "its answer was lost")
		require.Empty(t, held)
		second := w.settle(2)
		require.Empty(t, second)
		before := w.at()
		require.Nil(t, <-w.settle(1))
		require.Nil(t, <-second)
		require.Nil(t, <-held)
		require.Equal(t, before+3, w.at(), "1, 2 and 5; nothing went through the log twice")
		require.Nil(t, <-w.overtake(6), "in its turn")
		require.Nil(t, <-w.settle(7))
		require.Empty(t, w.sequence.mu.ahead)
	})
}

// While it is on its way through the log it is answered by what becomes of it, and it is not handed in again in its turn.
func TestSequence_OvertakesOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSequenceWorld(t)
		w.pass(w.at())
		second, again := w.overtake(2), w.overtake(2)
		first, third := w.settle(1), w.settle(3)
		require.Empty(t, second)
		w.pass(all)
		for _, f := range []<-chan *api.Error{first, second, again, third} {
			require.Nil(t, <-f)
		}
	})
}

// Once the state has refused one that overtook (it was too far ahead there), it comes again and is settled, and so are those
// behind it.
func TestSequence_OvertakesAndIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSequenceWorld(t)
		require.Nil(t, <-w.overtake(3))
		w.sequence.mu.next = 10 // as if those below were on their way
		require.NotNil(t, <-w.overtake(5+metadata.MaxAhead), "too early")
		require.EqualValues(t, 1, w.sequence.mu.next)
		require.Nil(t, <-w.overtake(5))
		far := w.overtake(5 + metadata.MaxAhead)
		require.Empty(t, far, "held")
		require.Nil(t, <-w.settle(1))
		require.Nil(t, <-w.settle(2))
		require.Nil(t, <-w.settle(4))
		require.EqualValues(t, 6, w.sequence.mu.next)
		time.Sleep(w.sequence.t.limits.HoldTimeout)
		require.Equal(t, api.Error_TIMED_OUT, (<-far).GetCode())
		require.Nil(t, <-w.overtake(5+metadata.MaxAhead), "it can be now")
	})
}

// A new owner knows what overtook, and waits for what is missing.
func TestSequence_OvertakenAtTheOwnersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSequenceWorld(t)
		require.Nil(t, <-w.overtake(2))
		require.Nil(t, <-w.overtake(4))
		var info metadata.SessionInfo
		_, err := w.sequence.t.owner.Read(func(s *metadata.State) { info, _ = s.Session(1) })
		require.NoError(t, err)
		w.sequence = newSequence(w.sequence.t, info)
		before := w.at()
		require.Nil(t, <-w.overtake(2))
		require.Equal(t, before, w.at())
		fifth, third := w.settle(5), w.settle(3)
		require.Empty(t, third)
		require.Nil(t, <-w.settle(1))
		require.Nil(t, <-third)
		require.Nil(t, <-fifth)
	})
}

// What overtakes, late, is not handed to the log.
func TestSequence_OvertakesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSequenceWorld(t)
		late := make(chan *api.Error, 1)
		time.Sleep(time.Second)
		s := submission{n: 2, command: &metadata.AbandonSubmission{}, until: 1, overtakes: true}
		w.submit(s, func(_ *commit.Result, _ uint64, f *api.Error) { late <- f })
		require.Equal(t, api.Error_LATE, (<-late).GetCode())
		require.Nil(t, <-w.overtake(2))
		require.Nil(t, <-w.settle(1))
	})
}

// The log refuses what overtakes as anything else, and takes it when it comes again.
func TestSequence_OvertakesAFullLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSequenceWorld(t)
		w.pass(w.at())
		_, err := w.sequence.t.owner.Enqueue(t.Context(), &metadata.Tick{})
		require.NoError(t, err)
		synctest.Wait() // it is on its way, and what comes now waits in the queue
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		sound := w.sequence.t.ctx
		w.sequence.t.ctx = ctx // nothing can be handed over
		second, first := w.overtake(2), w.settle(1)
		require.NotNil(t, <-second)
		require.NotNil(t, <-first)
		w.sequence.t.ctx = sound
		w.pass(all)
		require.Nil(t, <-w.overtake(2))
		require.Nil(t, <-w.settle(1))
		require.Nil(t, <-w.settle(3))
	})
}
