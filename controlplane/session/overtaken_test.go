package session_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// overtaking builds a commit of one batch that overtakes those before it.
func overtaking(sub id.Submission, in batch) []byte {
	var b commit.Builder
	b.Reset(commit.Header{Submission: sub, Bytes: 1000, Overtakes: true})
	b.Section(commit.Section{Partition: in.tp})
	b.Batch(commit.Batch{Records: 1, Bytes: 1000, ProducerID: in.producer, BaseSequence: in.sequence})
	return b.AppendTo(nil)
}

// TestSession_OvertakenOverAnOwnerChange: what overtook others has the same answer from the next owner, which takes those
// that were missing, and then what waits for them.
func TestSession_OvertakenOverAnOwnerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		other := w.start("r2")
		a := w.agent()
		a.opened()
		name := func(n uint32) id.Submission { return id.Submission{Session: a.ID(), N: n} }
		hand := func(encoded []byte) *commit.Result {
			result, err := a.Commit(context.Background(), encoded, time.Time{})
			require.NoError(t, err)
			return result
		}
		ahead := hand(overtaking(name(2), plain(tp)))
		require.Equal(t, commit.Settled, ahead.Status)

		w.stop(n)
		w.waitFor("the other owner", func() (again bool) {
			a.read(func() { again = a.welcomes > 1 })
			return again
		})
		a.read(func() { require.True(t, a.overtaking) })
		third := make(chan *commit.Result, 1)
		go func() { third <- hand(encode(name(3), false, plain(tp))) }()
		require.Equal(t, ahead, hand(overtaking(name(2), plain(tp))))
		require.Empty(t, third)
		require.EqualValues(t, 1, hand(encode(name(1), false, plain(tp))).Sections[0].Spans[0].Base)
		require.EqualValues(t, 2, (<-third).Sections[0].Spans[0].Base)
		require.EqualValues(t, 3, a.subscribe(tp).HighWatermark)
		a.leave()
		w.stop(other)
	})
}
