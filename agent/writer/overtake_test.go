package writer_test

import (
	"bytes"
	"context"
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
	"github.com/freshet-io/freshet/objstore/durable"
)

// oneEach makes a writer whose every Add is a bundle, with no bound on its PUTs but their number.
func oneEach(c *writer.Config) { c.FlushBytes, c.PutRate, c.PutBurst = 100, 1000, 1000 }

// sized is a batch that fills a bundle of oneEach, and came by the producer's own connection.
func sized(p int32, producer int64, sequence int32) writer.Batch {
	return by(uint16(producer), batchOf(p, 200, 1, producer, sequence))
}

// by is a batch that came by a connection.
func by(connection uint16, b writer.Batch) writer.Batch {
	b.Connection = connection
	return b
}

// ns gives the submissions in the order in which the sequencer got them.
func (q *sequencer) ns() (list []uint32) {
	for _, sub := range q.applied() {
		list = append(list, sub.N)
	}
	return list
}

// isDone tells whether the batches have their results.
func isDone(p *writer.Produce) bool {
	select {
	case <-p.Done():
		return true
	default:
		return false
	}
}

// TestWriter_ABundleOvertakes: a bundle whose PUT was quicker is settled before an earlier one if, and only if, they have no
// batches of one producer or one connection in one partition, nor both some without a producer id in one partition.
func TestWriter_ABundleOvertakes(t *testing.T) {
	const none = commit.NoProducer
	cases := map[string]struct {
		before, after []writer.Batch
		allowed, want bool
	}{
		"another producer":          {[]writer.Batch{sized(0, 7, 0)}, []writer.Batch{sized(0, 8, 0)}, true, true},
		"another partition":         {[]writer.Batch{sized(0, 7, 0)}, []writer.Batch{sized(1, 7, 0)}, true, true},
		"the same in both":          {[]writer.Batch{sized(0, 7, 0)}, []writer.Batch{sized(0, 7, 1)}, true, false},
		"among others":              {[]writer.Batch{sized(1, 7, 0), sized(2, 9, 0), sized(2, 8, 0), sized(2, 9, 1)}, []writer.Batch{sized(3, 7, 0), sized(2, 5, 0), sized(2, 8, 1)}, true, false},
		"no producers":              {[]writer.Batch{sized(0, none, -1)}, []writer.Batch{sized(0, none, -1)}, true, false},
		"no producers, elsewhere":   {[]writer.Batch{sized(0, none, -1)}, []writer.Batch{sized(1, none, -1)}, true, true},
		"one with, one without":     {[]writer.Batch{sized(0, none, -1)}, []writer.Batch{sized(0, 7, 0)}, true, true},
		"one connection":            {[]writer.Batch{by(1, sized(0, 7, 0))}, []writer.Batch{by(1, sized(0, 8, 0))}, true, false},
		"its other partitions":      {[]writer.Batch{by(1, sized(0, 7, 0))}, []writer.Batch{by(1, sized(1, 8, 0))}, true, true},
		"one connection, plain":     {[]writer.Batch{by(1, sized(0, none, -1))}, []writer.Batch{by(1, sized(0, 7, 0))}, true, false},
		"no producers, two of them": {[]writer.Batch{by(1, sized(0, none, -1))}, []writer.Batch{by(2, sized(0, none, -1))}, true, false},
		"the sequencer does not it": {[]writer.Batch{sized(0, 7, 0)}, []writer.Batch{sized(1, 7, 0)}, false, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newIdleRig(t, func(c *writer.Config) { c.PutRate, c.PutBurst = 1000, 1000 })
				welcome := r.seq.open(t, "first")
				welcome.Overtaking = c.allowed
				r.OnWelcome(welcome)
				r.bucket.before = delay(1, 3*time.Second)
				before := r.Add(t.Context(), c.before)
				<-time.After(20 * time.Millisecond)
				after := r.Add(t.Context(), c.after)
				<-time.After(time.Second)
				require.Equal(t, c.want, isDone(after))
				require.False(t, isDone(before))
				for _, p := range []*writer.Produce{before, after} {
					for _, got := range p.Wait(t.Context()) {
						require.NoError(t, got.Err)
						require.Equal(t, commit.Accepted, got.Outcome)
					}
				}
				if c.want {
					require.Equal(t, []uint32{2, 1}, r.seq.ns())
					require.EqualValues(t, 1, metric(t, r, "freshet_writer_overtaking_bundles_total"))
				} else {
					require.Equal(t, []uint32{1, 2}, r.seq.ns())
				}
				require.Zero(t, metric(t, r, "freshet_writer_resubmissions_total"))
				for p := range int32(4) {
					r.checkMemory(p)
				}
			})
		})
	}
}

// TestWriter_TheUpgradeOfASession: a session that goes on with an owner whose sequencer can do it overtakes from then on.
func TestWriter_TheUpgradeOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newIdleRig(t, oneEach)
		welcome := r.seq.open(t, "first")
		welcome.Overtaking = false
		r.OnWelcome(welcome)
		r.bucket.before = delay(1, 3*time.Second)
		slow := r.add(sized(0, 7, 0))
		synctest.Wait()
		waits := r.add(sized(1, 7, 0))
		<-time.After(time.Second)
		r.OnWelcome(r.seq.open(t, "first"))
		r.accepted(r.add(sized(2, 7, 0)))
		require.False(t, isDone(waits))
		r.accepted(waits)
		r.accepted(slow)
	})
}

// TestWriter_OvertakersKeepTheirOrder: those that overtake the same bundle and depend on each other wait for each other's
// answers: two commits on their way may come to the owner in any order.
func TestWriter_OvertakersKeepTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, oneEach)
		r.bucket.before = delay(1, 10*time.Second)
		transit := []time.Duration{time.Second, 0, 500 * time.Millisecond}
		r.seq.transit = func(attempt int) time.Duration { return transit[min(attempt, 2)] }
		slow := r.add(plain(0, 200))
		synctest.Wait()
		b := []writer.Batch{plain(1, 200), plain(1, 200), plain(2, 200), sized(1, 7, 0)}
		began := time.Now()
		var on []*writer.Produce
		for i := range b {
			on = append(on, r.add(b[i]))
			synctest.Wait()
		}
		r.accepted(on[2])
		r.accepted(on[3])
		require.Less(t, time.Since(began), time.Second)
		require.False(t, isDone(on[0]))
		require.EqualValues(t, 1, r.accepted(on[0]), "behind the one that has a producer")
		require.EqualValues(t, 3, r.accepted(on[1]))
		require.False(t, isDone(slow))
		r.accepted(slow)
		require.True(t, bytes.Equal(want(b[3], b[0], b[1]), r.stored(1)))
	})
}

// TestWriter_OvertakersGiveUp: a bundle that cannot be stored, or of which nothing is wanted any more, holds up those that must
// not overtake it no longer than it did, and nobody else.
func TestWriter_OvertakersGiveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, oneEach)
		ended := &lease{}
		ended.over.Store(true)
		r.bucket.before = func(ctx context.Context, k int) error {
			switch k {
			case 1:
				return delay(1, 20*time.Second)(ctx, k)
			case 3:
				return errPermission
			}
			return nil
		}
		var on []*writer.Produce
		for _, b := range []writer.Batch{
			plain(0, 200), held(ended, plain(1, 200)), plain(2, 200), plain(3, 200), plain(1, 200), plain(2, 200), plain(3, 200),
		} {
			on = append(on, r.add(b))
			synctest.Wait()
		}
		r.accepted(on[3])
		r.accepted(on[6])
		require.ErrorIs(t, r.result(on[1]).Err, writer.ErrWithdrawn)
		require.ErrorIs(t, r.result(on[2]).Err, writer.ErrStore)
		require.False(t, isDone(on[0]) || isDone(on[4]) || isDone(on[5]))
		for i, base := range map[int]int64{0: 0, 4: 0, 5: 0} {
			require.Equal(t, base, r.accepted(on[i]))
		}
		ns := r.seq.ns()
		require.Equal(t, []uint32{4, 7, 1}, ns[:3])
		require.ElementsMatch(t, []uint32{5, 6}, ns[3:], "of different partitions: they waited each for its own")
	})
}

// TestWriter_AbandonedWhileOvertaken: a bundle that is never stored is given up by name after those that overtook it.
func TestWriter_AbandonedWhileOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) {
			oneEach(c)
			c.Retry = durable.Policy{AttemptTimeout: time.Hour}
		})
		r.bucket.before = delay(1, time.Hour)
		lost := r.add(sized(0, 7, 0))
		synctest.Wait()
		gap := r.add(sized(0, 7, 1))
		other := r.add(sized(0, 8, 0))
		require.Zero(t, r.accepted(other))
		require.False(t, isDone(lost) || isDone(gap))
		require.ErrorIs(t, r.result(lost).Err, writer.ErrStore)
		require.ErrorIs(t, r.result(gap).Err, writer.ErrGap, "as before: what is missing was not stored")
		require.EqualValues(t, 1, r.accepted(r.add(sized(0, 7, 0))))
		require.EqualValues(t, 2, r.accepted(r.add(sized(0, 7, 1))))
	})
}

// TestWriter_ASessionClosedWhileOvertaken: what overtook others has its true result; what is missing is told at once, and
// nothing of it is committed later.
func TestWriter_ASessionClosedWhileOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, oneEach)
		r.bucket.before = delay(1, 3*time.Second)
		slow := r.add(plain(0, 200))
		synctest.Wait()
		kept := r.add(plain(1, 200))
		waits := r.add(plain(0, 200))
		require.Zero(t, r.accepted(kept))
		synctest.Wait()
		r.seq.apply(t, &metadata.CloseSession{Session: 1})
		r.OnSessionClosed()
		require.ErrorIs(t, r.result(slow).Err, writer.ErrSessionClosed)
		require.ErrorIs(t, r.result(waits).Err, writer.ErrSessionClosed)
		r.OnWelcome(r.seq.open(t, "second"))
		require.EqualValues(t, 2, r.accepted(r.add(plain(1, 200))), "behind it")
		require.Equal(t, []id.Submission{{Session: 1, N: 2}, {Session: 2, N: 1}}, r.seq.applied())
		<-time.After(5 * time.Second)
		require.Empty(t, r.extents(0))
	})
}

// overtaken begins a bundle of partition 0 whose PUT takes 3 s, which so many others overtake.
func (r *rig) overtaken(by int32) (slow *writer.Produce) {
	r.bucket.before = delay(1, 3*time.Second)
	slow = r.add(plain(0, 200))
	synctest.Wait()
	for p := range by {
		r.accepted(r.add(plain(p+1, 200)))
	}
	return slow
}

// TestWriter_DrainWaitsForWhatWasOvertaken: everything is settled and acknowledged in order when it returns.
func TestWriter_DrainWaitsForWhatWasOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, oneEach)
		slow := r.overtaken(5)
		require.Zero(t, r.seq.acked, "one is missing")
		began := time.Now()
		require.NoError(t, r.Drain(t.Context()))
		require.Equal(t, 3*time.Second, time.Since(began).Round(time.Second))
		r.accepted(slow)
	})
}

// TestWriter_ResultsAreAcknowledgedOnceNoneIsMissing: what was settled ahead is acknowledged when what was missing is.
func TestWriter_ResultsAreAcknowledgedOnceNoneIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, oneEach)
		slow := r.overtaken(5)
		r.accepted(slow)
		synctest.Wait()
		r.accepted(r.add(plain(0, 200)))
		require.EqualValues(t, 6, r.seq.acked)
	})
}

// TestWriter_HowFarItOvertakes: what is behind a missing bundle is bounded, and holds no memory once it is settled.
func TestWriter_HowFarItOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(c *writer.Config) {
			oneEach(c)
			c.MaxUnsettled, c.Sink = 20, nil
		})
		r.bucket.before = delay(1, 3*time.Second)
		slow := r.add(plain(0, 200))
		synctest.Wait()
		alone := r.pool.Held()
		for p := range int32(19) {
			r.accepted(r.add(plain(p+1, 200)))
		}
		synctest.Wait()
		require.LessOrEqual(t, r.pool.Held(), alone+300, "and what it is to be known by")
		require.EqualValues(t, 20, r.bucket.count())
		held := r.add(plain(30, 200))
		<-time.After(time.Second)
		require.EqualValues(t, 20, r.bucket.count(), "its PUT does not begin")
		r.accepted(slow)
		r.accepted(held)
	})
}

// TestWriter_NothingIsReordered: many producers, with and without ids, on some connections, over a store whose PUTs take any
// time, and an owner that commits and answers reach in any order, some of which are lost. Every producer's batches are there
// once and in their order in each partition, and none was ever ahead of its sequence.
func TestWriter_NothingIsReordered(t *testing.T) {
	overtaking := 0.0
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { overtaking += nothingIsReordered(t, rand.New(rand.NewPCG(seed, 5))) })
		})
	}
	require.Positive(t, overtaking)
}

// nothingIsReordered gives how many bundles overtook others.
func nothingIsReordered(t *testing.T, rng *rand.Rand) (overtaking float64) {
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
				b := sized(to, int64(p), sequence[to])
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
	return metric(t, r, "freshet_writer_overtaking_bundles_total")
}
