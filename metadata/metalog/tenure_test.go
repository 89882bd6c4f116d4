package metalog_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
)

// world is a log in memory and two replicas of it.
type world struct {
	store *memlog.Store
	a, b  metalog.Log
	netA  *memlog.Replica
	netB  *memlog.Replica
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{store: memlog.New()}
	var err error
	w.a, w.netA, err = w.store.Open("a", metalog.Config{EntryBytes: 8})
	require.NoError(t, err)
	w.b, w.netB, err = w.store.Open("b", metalog.Config{EntryBytes: 8})
	require.NoError(t, err)
	return w
}

func acquire(t *testing.T, l metalog.Log, replica string) metalog.Tenure {
	t.Helper()
	tenure, err := l.Acquire(t.Context(), metalog.Candidate{Replica: replica})
	require.NoError(t, err)
	return tenure
}

func (w *world) payloads(t *testing.T) []string {
	t.Helper()
	entries, _, err := w.b.Read(t.Context(), 1, 1<<20)
	require.NoError(t, err)
	var all []string
	for _, e := range entries {
		all = append(all, string(e.Payload))
	}
	return all
}

// once applies a fault to the first request of a kind.
func once(kind memlog.OpKind, f memlog.Fault) func(memlog.Op) memlog.Fault {
	done := false
	return func(op memlog.Op) memlog.Fault {
		if op.Kind != kind || done {
			return memlog.Pass
		}
		done = true
		return f
	}
}

func always(kind memlog.OpKind, f memlog.Fault) func(memlog.Op) memlog.Fault {
	return func(op memlog.Op) memlog.Fault {
		if op.Kind != kind {
			return memlog.Pass
		}
		return f
	}
}

func TestTenure_LivesOnRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tenure := acquire(t, w.a, "a")
		time.Sleep(time.Minute)
		require.True(t, tenure.Valid())
		_, err := w.b.Acquire(t.Context(), metalog.Candidate{Replica: "b"})
		require.ErrorIs(t, err, metalog.ErrHeld)
		require.NoError(t, tenure.Resign(t.Context()))
	})
}

// The fence of an owner that is cut off falls 3.5 s after the last renewal was sent, the lease runs out 5 s after it
// arrived: in between nobody owns, and at no time do two.
func TestTenure_FencesItselfBeforeItsLeaseRunsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := acquire(t, w.a, "a")
		time.Sleep(10 * time.Second)
		start := time.Now()
		w.netA.CutOff()
		<-first.Lost()
		fell := time.Since(start)
		require.LessOrEqual(t, fell, 3500*time.Millisecond)
		require.GreaterOrEqual(t, fell, 3*time.Second)
		require.False(t, first.Valid())

		var second metalog.Tenure
		require.Eventually(t, func() bool {
			var err error
			second, err = w.b.Acquire(t.Context(), metalog.Candidate{Replica: "b"})
			return err == nil
		}, 10*time.Second, 50*time.Millisecond)
		took := time.Since(start)
		require.Greater(t, took, fell)
		require.LessOrEqual(t, took, 5100*time.Millisecond)
		require.NoError(t, second.Resign(t.Context()))
		w.netA.SetFaults(nil)
		require.NoError(t, first.Resign(t.Context()))
	})
}

func TestTenure_SurvivesLostRenewals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tenure := acquire(t, w.a, "a")
		n := map[memlog.OpKind]int{}
		w.netA.SetFaults(func(op memlog.Op) memlog.Fault {
			n[op.Kind]++
			if op.Kind == memlog.OpWatch || op.Kind == memlog.OpOwners {
				return []memlog.Fault{memlog.LoseAnswer, memlog.Pass}[n[op.Kind]%2]
			}
			return []memlog.Fault{memlog.LoseRequest, memlog.LoseAnswer, memlog.Hang, memlog.Pass}[n[op.Kind]%4]
		})
		time.Sleep(time.Minute)
		require.True(t, tenure.Valid())
		w.netA.SetFaults(nil)
		require.NoError(t, tenure.Resign(t.Context()))
	})
}

// A lease that is gone though its owner renewed in time (an operator revoked it) ends the tenure at the next renewal.
func TestTenure_EndsWhenItsLeaseIsRevoked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tenure := acquire(t, w.a, "a")
		w.store.ExpireLeases()
		time.Sleep(time.Second)
		require.False(t, tenure.Valid())
		_, err := tenure.Append(t.Context(), 1, []byte("late"))
		require.ErrorIs(t, err, metalog.ErrFenced)
		require.NoError(t, tenure.Resign(t.Context()))
	})
}

func TestTenure_AppendResolvesLostAnswers(t *testing.T) {
	for name, fault := range map[string]memlog.Fault{
		"request lost": memlog.LoseRequest, "answer lost": memlog.LoseAnswer, "request hangs": memlog.Hang,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				tenure := acquire(t, w.a, "a")
				w.netA.SetFaults(once(memlog.OpAppend, fault))
				last, err := tenure.Append(t.Context(), 1, []byte("one"))
				require.NoError(t, err)
				require.EqualValues(t, 1, last)
				_, err = tenure.Append(t.Context(), 2, []byte("two"))
				require.NoError(t, err)
				require.Equal(t, []string{"one", "two"}, w.payloads(t))
				require.NoError(t, tenure.Resign(t.Context()))
			})
		})
	}
}

// A request that was given up arrives when its index, and another one, were appended by its repetition: it must not
// put the log back.
func TestTenure_LateRequestChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tenure := acquire(t, w.a, "a")
		w.netA.SetFaults(once(memlog.OpAppend, memlog.Hold))
		for i, p := range []string{"one", "two"} {
			_, err := tenure.Append(t.Context(), uint64(i+1), []byte(p))
			require.NoError(t, err)
		}
		w.netA.Release()
		_, err := tenure.Append(t.Context(), 3, []byte("three"))
		require.NoError(t, err)
		require.Equal(t, []string{"one", "two", "three"}, w.payloads(t))
		require.NoError(t, tenure.Resign(t.Context()))
	})
}

// Pointers that were given up arrive when later ones were set: they must not come back, since what they point to, and the log
// behind it, may be gone.
func TestTenure_LatePointersChangeNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tenure := acquire(t, w.a, "a")
		w.netA.SetFaults(once(memlog.OpSetSnapshots, memlog.Hold))
		var want []metalog.SnapshotRef
		for index := uint64(5); index < 20; index += 5 {
			want = []metalog.SnapshotRef{{Index: index}, {Index: index - 5}}
			require.NoError(t, tenure.SetSnapshots(t.Context(), want))
		}
		require.Equal(t, 1, w.netA.Held())
		w.netA.Release()
		got, err := w.b.Snapshots(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.True(t, tenure.Valid())
		require.NoError(t, tenure.Resign(t.Context()))
	})
}

// Late pointers that arrive between an attempt's reading and its writing are no sign of another owner.
func TestTenure_LatePointersInBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		tenure := acquire(t, w.a, "a")
		w.netA.SetFaults(always(memlog.OpSetSnapshots, memlog.Hold))
		require.Error(t, tenure.SetSnapshots(t.Context(), []metalog.SnapshotRef{{Index: 5}}))
		released := false
		w.netA.SetFaults(func(op memlog.Op) memlog.Fault {
			if op.Kind == memlog.OpSetSnapshots && !released {
				released = true
				w.netA.Release()
			}
			return memlog.Pass
		})
		want := []metalog.SnapshotRef{{Index: 10}, {Index: 5}}
		require.NoError(t, tenure.SetSnapshots(t.Context(), want))
		got, err := w.b.Snapshots(t.Context())
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.True(t, tenure.Valid())
		require.NoError(t, tenure.Resign(t.Context()))
	})
}

// The owner is cut off with an append whose answer was lost. The entry is in; the new owner has it and goes on behind
// it; the old one only learns that it is fenced.
func TestTenure_AppendAmbiguousOverTakeover(t *testing.T) {
	for name, tt := range map[string]struct {
		fault memlog.Fault
		want  []string
	}{
		"in the log":     {memlog.LoseAnswer, []string{"mine", "yours"}},
		"not in the log": {memlog.LoseRequest, []string{"yours"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				first := acquire(t, w.a, "a")
				seen := false
				w.netA.SetFaults(func(op memlog.Op) memlog.Fault {
					if op.Kind == memlog.OpAppend && !seen {
						seen = true
						return tt.fault
					}
					return memlog.Hang
				})
				_, err := first.Append(t.Context(), 1, []byte("mine"))
				require.ErrorIs(t, err, metalog.ErrFenced)
				_, err = first.Append(t.Context(), 1, []byte("again"))
				require.ErrorIs(t, err, metalog.ErrFenced)
				time.Sleep(2 * time.Second) // the lease runs out

				second := acquire(t, w.b, "b")
				_, err = second.Append(t.Context(), second.Tail()+1, []byte("yours"))
				require.NoError(t, err)
				require.Equal(t, tt.want, w.payloads(t))
				require.NoError(t, second.Resign(t.Context()))
				w.netA.SetFaults(nil)
				require.NoError(t, first.Resign(t.Context()))
			})
		})
	}
}

// The owner is stopped with an append in its send buffer and woken when another one owns: what it sent arrives and is
// refused, and so is everything it does after.
func TestTenure_StoppedPastItsLeaseThenWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := acquire(t, w.a, "a")
		w.netA.Stop()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := first.Append(ctx, 1, []byte("stale"))
		require.ErrorIs(t, err, metalog.ErrFenced)
		time.Sleep(10 * time.Second)

		second := acquire(t, w.b, "b")
		_, err = second.Append(t.Context(), 1, []byte("fresh"))
		require.NoError(t, err)
		w.netA.Release()
		synctest.Wait()
		require.False(t, first.Valid())
		require.ErrorIs(t, first.SetSnapshots(t.Context(), nil), metalog.ErrFenced)
		require.ErrorIs(t, first.Trim(t.Context(), 1), metalog.ErrFenced)
		require.Equal(t, []string{"fresh"}, w.payloads(t))
		require.True(t, second.Valid())
		require.NoError(t, second.Resign(t.Context()))
		require.NoError(t, first.Resign(t.Context()))
	})
}

func TestLog_AcquireResolvesLostAnswers(t *testing.T) {
	for _, kind := range []memlog.OpKind{memlog.OpGrant, memlog.OpClaim, memlog.OpRange} {
		for name, fault := range map[string]memlog.Fault{"request": memlog.LoseRequest, "answer": memlog.LoseAnswer} {
			t.Run(string(kind)+" "+name+" lost", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.netA.SetFaults(once(kind, fault))
					tenure := acquire(t, w.a, "a")
					require.True(t, tenure.Valid())
					require.NoError(t, tenure.Resign(t.Context()))
				})
			})
		}
	}
}

// Acquiring that takes longer than the fence stands does not make an owner.
func TestLog_AcquireTooSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.netA.SetFaults(always(memlog.OpRange, memlog.Hang))
		_, err := w.a.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
		require.Error(t, err)
		st, err := w.b.Status(t.Context())
		require.NoError(t, err)
		require.False(t, st.Owned, "the claim was given back")
	})
}

func TestLog_UnavailableInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.netA.CutOff()
		start := time.Now()
		_, err := w.a.Status(t.Context())
		require.ErrorIs(t, err, metalog.ErrUnavailable)
		require.LessOrEqual(t, time.Since(start), 9*time.Second)
		_, _, err = w.a.Read(t.Context(), 1, 1)
		require.ErrorIs(t, err, metalog.ErrUnavailable)
	})
}

func TestLog_SeesCorruption(t *testing.T) {
	w := newWorld(t)
	tenure := acquire(t, w.a, "a")
	_, err := tenure.Append(t.Context(), 1, []byte("one"))
	require.NoError(t, err)
	w.store.Corrupt(1)
	_, _, err = w.b.Read(t.Context(), 1, 1<<20)
	require.ErrorIs(t, err, metalog.ErrCorrupt)
	require.NoError(t, tenure.Resign(t.Context()))
}
