package writer_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/metadata/commit"
)

// lease is another agent's that counts on its batches until it is ended, or for a time.
type lease struct {
	over  atomic.Bool
	until time.Time // zero: for long
}

func (l *lease) Until() time.Time {
	switch {
	case l.over.Load():
		return time.Time{}
	case l.until.IsZero():
		return time.Now().Add(time.Hour)
	default:
		return l.until
	}
}

func held(l *lease, b writer.Batch) writer.Batch {
	b.Lease = l
	return b
}

// TestWriter_WithdrawnBatchesAreNotCommitted: of a bundle that is on its way to the object store, what other agents have
// given up meanwhile is left out of the commit, wherever it lies; all else is committed, and read from memory as it is
// from the object store.
func TestWriter_WithdrawnBatchesAreNotCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.bucket.before = delay(1, 2*time.Second)
		given, ended, kept := &lease{}, &lease{}, &lease{}
		b := []writer.Batch{
			plain(0, 3000), held(given, plain(0, 3000)), plain(0, 3000), held(kept, plain(0, 3000)), held(ended, plain(0, 3000)),
			held(ended, plain(1, 3000)), held(given, plain(2, 3000)), plain(2, 3000), plain(3, 3000), plain(3, 3000),
		}
		var on []*writer.Produce
		for i := range b {
			on = append(on, r.add(b[i]))
		}
		time.Sleep(time.Second)
		require.Equal(t, 1, r.bucket.count())
		for _, i := range []int{1, 6} {
			on[i].Withdraw(writer.ErrWithdrawn)
			require.ErrorIs(t, r.result(on[i]).Err, writer.ErrWithdrawn, "at once")
		}
		ended.over.Store(true)
		for _, i := range []int{4, 5} {
			require.ErrorIs(t, r.result(on[i]).Err, writer.ErrNotTaken)
		}
		for i, base := range map[int]int64{0: 0, 2: 30, 3: 60, 7: 0, 8: 0, 9: 30} {
			require.Equal(t, base, r.accepted(on[i]), "batch %d", i)
		}
		on[3].Withdraw(writer.ErrWithdrawn) // too late
		require.Equal(t, commit.Accepted, r.result(on[3]).Outcome)
		require.True(t, bytes.Equal(want(b[0], b[2], b[3]), r.stored(0)))
		require.Empty(t, r.stored(1))
		require.True(t, bytes.Equal(want(b[7]), r.stored(2)))
		require.True(t, bytes.Equal(want(b[8], b[9]), r.stored(3)))
		for p := range int32(4) {
			r.checkMemory(p)
		}
		r.checkObjects()
	})
}

// TestWriter_WithdrawnWhole: a bundle of which nothing is wanted is abandoned, and holds nobody up.
func TestWriter_WithdrawnWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		ended := &lease{}
		ended.over.Store(true)
		require.ErrorIs(t, r.result(r.add(held(ended, plain(0, 100)))).Err, writer.ErrNotTaken)
		require.Zero(t, r.accepted(r.add(plain(0, 100))))
		require.Len(t, r.extents(0), 1)
	})
}

// TestWriter_WithdrawnAfterHandIn: what was handed in for commit is the sequencer's: its result is the true one, though
// the answer takes until after the withdrawal.
func TestWriter_WithdrawnAfterHandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		l := &lease{}
		added := make(chan *writer.Produce, 1)
		r.seq.after = func(commit.Header, *commit.Result) error {
			l.over.Store(true)
			p := <-added
			p.Withdraw(writer.ErrWithdrawn)
			added <- p
			return nil
		}
		added <- r.add(held(l, plain(0, 100)))
		synctest.Wait()
		time.Sleep(time.Second)
		require.Zero(t, r.accepted(<-added))
	})
}

// TestWriter_LateCommit: a commit that comes to the owner when the agent that handed over batches of it may have given
// them up is refused there, however long it was on its way. It comes again without those, and in its order.
func TestWriter_LateCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.seq.transit = func(attempt int) time.Duration {
			if attempt == 0 {
				return 5 * time.Second
			}
			return 0
		}
		ends, lasts := &lease{until: time.Now().Add(4 * time.Second)}, &lease{until: time.Now().Add(time.Minute)}
		own, gone, kept := r.add(plain(0, 3000)), r.add(held(ends, plain(0, 3000))), r.add(held(lasts, plain(0, 3000)))
		time.Sleep(2 * time.Second)
		gone.Withdraw(writer.ErrWithdrawn) // handed in: only the sequencer can tell
		synctest.Wait()
		select {
		case <-gone.Done():
			t.Fatal("answered while nobody knows")
		default:
		}
		next := r.add(plain(0, 3000))
		require.ErrorIs(t, r.result(gone).Err, writer.ErrWithdrawn)
		require.Equal(t, int64(0), r.accepted(own))
		require.Equal(t, int64(30), r.accepted(kept))
		require.Equal(t, int64(60), r.accepted(next))
		r.checkMemory(0)
		r.checkObjects()
	})
}
