package writer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

func TestWriter_OrderHoldsWithFiveInFlightAndAStalledPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.FlushBytes = 10 << 10 })
		r.bucket.before = delay(2, 3*time.Second)
		var sent []writer.Batch
		var waiting []*writer.Produce
		for range 5 {
			b := plain(0, 10<<10)
			sent = append(sent, b)
			waiting = append(waiting, r.add(b))
		}
		synctest.Wait()
		require.Equal(t, 5, r.bucket.count(), "all are put at the same time")
		for i, p := range waiting {
			require.EqualValues(t, i*102, r.accepted(p))
		}
		require.True(t, bytes.Equal(want(sent...), r.stored(0)))
		var order []uint32
		for _, sub := range r.seq.applied() {
			order = append(order, sub.N)
		}
		require.Equal(t, []uint32{1, 2, 3, 4, 5}, order)
		r.checkMemory(0)
		r.checkObjects()
	})
}

func TestWriter_ResultsAreAcknowledgedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.FlushBytes = 10 << 10 })
		for range 20 {
			r.accepted(r.add(plain(0, 10<<10)))
			synctest.Wait()
		}
		require.EqualValues(t, 19, r.seq.acked)
	})
}

func TestWriter_ALostCommitAnswerIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.FlushBytes = 10 << 10 })
		lose := 3
		r.seq.after = func(h commit.Header, _ *commit.Result) error {
			r.seq.mu.Lock()
			defer r.seq.mu.Unlock()
			if h.Submission.N == 1 && lose > 0 {
				lose--
				return fmt.Errorf("%w: answer lost", client.ErrUnavailable)
			}
			return nil
		}
		a, b := plain(0, 10<<10), plain(0, 10<<10)
		first, second := r.add(a), r.add(b)
		require.EqualValues(t, 0, r.accepted(first))
		require.EqualValues(t, 102, r.accepted(second))
		require.True(t, bytes.Equal(want(a, b), r.stored(0)), "one effect (I3)")
		r.checkMemory(0)
	})
}

func TestWriter_AWaiterMayLeaveEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.bucket.before = delay(1, 10*time.Second)
		p := r.add(plain(0, 100))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, p.Wait(ctx)[0].Err, writer.ErrUnknownOutcome)
		require.Zero(t, r.accepted(p), "the batch goes on its way")
	})
}

func TestWriter_OneBundleOfMixedOutcomes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.GapTimeout = time.Second })
		const a, b = 7, 8
		first := batchOf(0, 300, 3, a, 0)
		require.Zero(t, r.accepted(r.add(first)))

		second, plain1, plain2 := batchOf(0, 4000, 2, a, 3), batchOf(0, 200, 5, -1, -1), batchOf(0, 250, 1, -1, -1)
		third, fresh := batchOf(0, 100, 1, a, 5), batchOf(0, 500, 4, b, 0)
		batches := []writer.Batch{
			second,                    // accepted at 3
			first,                     // duplicate of 0
			plain1,                    // accepted at 5
			batchOf(0, 300, 3, a, 40), // gap that never closes
			batchOf(99, 300, 3, -1, -1),
			third,                                    // accepted at 10
			batchOf(1, 300, 3, b, 9),                 // gap in another partition
			fresh,                                    // accepted at 11
			plain2,                                   // accepted at 15
			withTransaction(batchOf(0, 90, 1, 9, 0)), // refused
		}
		got := r.Add(t.Context(), batches).Wait(t.Context())
		require.Equal(t, []int64{3, 0, 5, -1, -1, 10, -1, 11, 15, -1}, bases(got))
		require.Equal(t, []commit.Outcome{
			commit.Accepted, commit.Duplicate, commit.Accepted, 0, commit.NoPartition, commit.Accepted, 0, commit.Accepted,
			commit.Accepted, commit.InvalidTxn,
		}, outcomes(got))
		require.ErrorIs(t, got[3].Err, writer.ErrGap)
		require.ErrorIs(t, got[6].Err, writer.ErrGap)
		require.True(t, bytes.Equal(want(first, second, plain1, third, fresh, plain2), r.stored(0)))
		r.checkMemory(0)
		r.checkObjects()
	})
}

func withTransaction(b writer.Batch) writer.Batch {
	b.Commit.Transactional = true
	return b
}

func bases(results []writer.Result) (b []int64) {
	for _, r := range results {
		b = append(b, r.Base)
	}
	return b
}

func outcomes(results []writer.Result) (o []commit.Outcome) {
	for _, r := range results {
		o = append(o, r.Outcome)
	}
	return o
}

func TestWriter_AGapThatClosesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		const a = 7
		first, second, third := batchOf(0, 300, 3, a, 0), batchOf(0, 300, 2, a, 3), batchOf(0, 300, 4, a, 5)
		other := plain(0, 100)
		late := r.Add(t.Context(), []writer.Batch{second, other, third})
		<-time.After(time.Second)
		// The first batch comes by another agent, as far as this bundle is concerned.
		require.EqualValues(t, 1, r.accepted(r.add(first)))
		began := time.Now()
		require.Equal(t, []int64{4, 0, 6}, bases(late.Wait(t.Context())))
		require.Less(t, time.Since(began), time.Second)
		require.True(t, bytes.Equal(want(other, first, second, third), r.stored(0)))

		synctest.Wait()
		c := r.sink.get(id.Submission{Session: 1, N: 1}.Bundle())
		require.NotNil(t, c)
		for _, x := range r.extents(0) {
			_, ok := c.Slices(nil, x.Position, x.Length)
			require.Equal(t, x.Bundle == c.ID && x.Base == 0, ok, "gapped batches are not in the memory handed over")
		}
	})
}

// TestWriter_AGapThatStaysOpen ends with an error in time for a client that repeats one batch at a time: it sends the missing
// batch only when it has the answer.
func TestWriter_AGapThatStaysOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		const a = 7
		first, second, third := batchOf(0, 300, 3, a, 0), batchOf(0, 300, 2, a, 3), batchOf(0, 300, 4, a, 5)
		began := time.Now()
		late := r.add(third)
		require.Zero(t, r.accepted(r.add(first)))
		require.ErrorIs(t, r.result(late).Err, writer.ErrGap)
		require.Less(t, time.Since(began), 2*time.Second)
		require.EqualValues(t, 3, r.accepted(r.add(second)))
		again := r.result(r.add(third))
		require.NoError(t, again.Err)
		require.EqualValues(t, 5, again.Base)
		require.True(t, bytes.Equal(want(first, second, third), r.stored(0)), "each once, in order")
	})
}

func TestWriter_TwoProducersCrosswiseOnTwoWriters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		other := newIdleRig(t, func(c *writer.Config) { c.Committer = r.seq })
		other.OnWelcome(r.seq.open(t, "second"))
		const a, b = 7, 8
		one := r.Add(t.Context(), []writer.Batch{batchOf(0, 300, 1, a, 1), batchOf(0, 300, 1, b, 0)})
		two := other.Add(t.Context(), []writer.Batch{batchOf(0, 300, 1, b, 1), batchOf(0, 300, 1, a, 0)})
		for _, got := range append(one.Wait(t.Context()), two.Wait(t.Context())...) {
			require.NoError(t, got.Err)
			require.Equal(t, commit.Accepted, got.Outcome)
		}
	})
}

func TestWriter_ResubmissionsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.MaxResubmissions = 2 })
		began := time.Now()
		one := r.add(batchOf(0, 300, 1, 1, 5))
		two := r.add(batchOf(0, 300, 1, 2, 5))
		three := r.add(batchOf(0, 300, 1, 3, 5))
		<-three.Done()
		require.ErrorIs(t, r.result(three).Err, writer.ErrGap)
		require.Less(t, time.Since(began), time.Second)
		require.ErrorIs(t, r.result(one).Err, writer.ErrGap)
		require.ErrorIs(t, r.result(two).Err, writer.ErrGap)
		require.InDelta(t, 1.5, time.Since(began).Seconds(), 0.3)
	})
}

func TestWriter_DrainEndsTheWaitForGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		p := r.add(batchOf(0, 300, 1, 1, 5))
		<-time.After(time.Second)
		began := time.Now()
		require.NoError(t, r.Drain(t.Context()))
		require.ErrorIs(t, r.result(p).Err, writer.ErrGap)
		require.Zero(t, time.Since(began))
	})
}

func TestWriter_NothingOfAClosedSessionIsCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) { c.FlushBytes = 10 << 10 })
		r.bucket.before = delay(1, 3*time.Second)
		old := []*writer.Produce{r.add(plain(0, 10<<10))}
		synctest.Wait()
		old = append(old, r.add(plain(0, 10<<10)), r.add(plain(0, 100)))
		<-time.After(time.Second) // the first is being put, the second is stored, the third too
		r.seq.apply(t, &metadata.CloseSession{Session: 1})
		began := time.Now()
		r.OnSessionClosed()
		for _, p := range old {
			require.ErrorIs(t, r.result(p).Err, writer.ErrSessionClosed)
		}
		require.Zero(t, time.Since(began), "waiters are told at once")

		b := plain(0, 200)
		fresh := make(chan *writer.Produce)
		go func() { fresh <- r.add(b) }()
		synctest.Wait()
		select {
		case <-fresh:
			t.Fatal("taken in without a session")
		default:
		}
		r.OnWelcome(r.seq.open(t, "second"))
		require.Zero(t, r.accepted(<-fresh))
		require.Equal(t, []id.Submission{{Session: 2, N: 1}}, r.seq.applied(), "numbering starts again")
		require.Equal(t, want(b), r.stored(0))
		r.checkMemory(0)
	})
}

func TestWriter_ACommitHandedInBeforeTheSessionClosedGetsItsTrueResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		answer := make(chan struct{})
		r.seq.after = func(commit.Header, *commit.Result) error {
			<-answer
			return nil
		}
		p := r.add(plain(0, 100))
		<-time.After(time.Second)
		r.OnSessionClosed()
		synctest.Wait()
		close(answer)
		require.Zero(t, r.accepted(p))
	})
}

func TestWriter_TheSameWelcomeGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.bucket.before = delay(1, time.Second)
		p := r.add(plain(0, 100))
		<-time.After(500 * time.Millisecond)
		r.OnWelcome(r.seq.open(t, "first"))
		require.Zero(t, r.accepted(p))
	})
}

func TestWriter_ARefusedCommitDoesNotHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newIdleRig(t, func(c *writer.Config) { c.FlushBytes = 10 << 10 })
		refuse := &refusing{sequencer: r.seq}
		other := newIdleRig(t, func(c *writer.Config) { c.FlushBytes = 10 << 10; c.Committer = refuse })
		other.OnWelcome(r.seq.open(t, "first"))
		first, second := other.add(plain(0, 10<<10)), other.add(plain(0, 10<<10))
		require.ErrorIs(t, other.result(first).Err, writer.ErrRefused)
		require.Zero(t, other.accepted(second))
	})
}

// refusing does not understand the first submission.
type refusing struct{ *sequencer }

func (q *refusing) Commit(ctx context.Context, encoded []byte, until time.Time) (*commit.Result, error) {
	if h, _ := commit.ParseHeader(encoded); h.Submission.N == 1 {
		return nil, fmt.Errorf("%w: not understood", client.ErrInvalid)
	}
	return q.sequencer.Commit(ctx, encoded, until)
}

func TestProduce_WithoutBatchesIsDone(t *testing.T) {
	r := newRig(t, nil)
	require.Empty(t, r.Add(t.Context(), nil).Wait(t.Context()))
}

func TestWriter_AddGivesUpWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newIdleRig(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		got := r.Add(ctx, []writer.Batch{plain(0, 100), plain(1, 100)}).Wait(t.Context())
		for _, g := range got {
			require.ErrorIs(t, g.Err, writer.ErrNotTaken)
			require.True(t, errors.Is(g.Err, context.DeadlineExceeded))
		}
	})
}

// TestWriter_NothingIsReordered runs many producers, with and without ids, over a store whose PUTs take any time. Commits and
// answers reach the owner and the agent in any order, and some answers are lost. Each producer's batches are stored once and
// in order in each partition, and none was ever ahead of its sequence.
func TestWriter_NothingIsReordered(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { nothingIsReordered(t, rand.New(rand.NewPCG(seed, 5))) })
		})
	}
}

func nothingIsReordered(t *testing.T, rng *rand.Rand) {
	t.Helper()
	const producers, partitions, each = 12, 6, 40
	var mu sync.Mutex
	random := func(d time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		if rng.IntN(20) == 0 {
			d *= 20
		}
		return time.Duration(rng.Int64N(int64(d)))
	}
	r := newRig(t, func(c *writer.Config) { c.FlushBytes, c.PutRate, c.PutBurst = 1000, 200, 200 })
	r.bucket.before = func(ctx context.Context, k int) error { return delay(k, random(100*time.Millisecond))(ctx, k) }
	r.seq.transit = func(int) time.Duration { return random(5 * time.Millisecond) }
	r.seq.after = func(commit.Header, *commit.Result) error {
		if <-time.After(random(5 * time.Millisecond)); random(10) == 0 {
			return fmt.Errorf("%w: answer lost", client.ErrUnavailable)
		}
		return nil
	}
	var sent [producers][partitions][]writer.Batch
	var all sync.WaitGroup
	for p := range producers {
		all.Go(func() {
			var sequence [partitions]int32
			var waiting []*writer.Produce
			for range each {
				to := int32(random(partitions) % partitions)
				b := batchOf(to, 200, 1, int64(p), sequence[to])
				if p%3 == 0 { // these have no producer id
					b = plain(to, 200+p)
				}
				sequence[to]++
				sent[p][to] = append(sent[p][to], b)
				waiting = append(waiting, r.add(b))
				<-time.After(random(20 * time.Millisecond))
			}
			for _, on := range waiting {
				if got := r.result(on); got.Err != nil || got.Outcome != commit.Accepted {
					t.Errorf("producer %d: %+v", p, got)
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, metric(t, r, "freshet_writer_resubmissions_total"))
	for to := range int32(partitions) {
		r.checkMemory(to)
		stored := map[string]int{} // records -> place
		for b, err := range kafkaproto.Batches(r.stored(to)) {
			require.NoError(t, err)
			stored[string(b[kafkaproto.BatchOverhead:])] = len(stored)
		}
		for p := range producers {
			at := -1
			for i, b := range sent[p][to] {
				records := string(b.Bytes[kafkaproto.BatchOverhead:])
				found, ok := stored[records]
				require.True(t, ok, "batch %d of producer %d", i, p)
				require.Greater(t, found, at, "batch %d of producer %d in partition %d", i, p, to)
				at = found
				delete(stored, records)
			}
		}
		require.Empty(t, stored, "each once")
	}
}
