package metalog_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
)

// sharing is a process with the logs of two virtual clusters under one lease, and a second process with a log of the first virtual cluster.
type sharing struct {
	store  *memlog.Store // of the first virtual cluster
	lease  *metalog.Lease
	leases *memlog.Replica // the first process's way to the leases
	one    metalog.Log
	ones   *memlog.Replica // its way to the first log
	two    metalog.Log
	rival  metalog.Log
}

func newSharing(t *testing.T) *sharing {
	t.Helper()
	store := memlog.New()
	s := &sharing{store: store, leases: store.Connect("a")}
	var err error
	s.lease, err = metalog.NewLease(s.leases, metalog.Config{})
	require.NoError(t, err)
	t.Cleanup(memlog.Start(s.lease))
	s.one, s.ones, err = store.Open("a", metalog.Config{Lease: s.lease})
	require.NoError(t, err)
	s.two, _, err = store.Another().Open("a", metalog.Config{Lease: s.lease})
	require.NoError(t, err)
	s.rival, _, err = store.Open("b", metalog.Config{})
	require.NoError(t, err)
	return s
}

// takes acquires the first log for the rival within 10 s.
func (s *sharing) takes(t *testing.T) {
	t.Helper()
	var tenure metalog.Tenure
	require.Eventually(t, func() (ok bool) {
		var err error
		tenure, err = s.rival.Acquire(t.Context(), metalog.Candidate{Replica: "b"})
		return err == nil
	}, 10*time.Second, 100*time.Millisecond)
	require.NoError(t, tenure.Resign(t.Context()))
}

// The process goes on to renew its lease, so the removal of the key is repeated until it succeeds.
func TestLease_ResigningWithTheStoreAway(t *testing.T) {
	for name, fault := range map[string]memlog.Fault{"request": memlog.LoseRequest, "answer": memlog.LoseAnswer, "hangs": memlog.Hang} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t)
				tenure := acquire(t, s.one, "a")
				other := acquire(t, s.two, "a")
				s.leases.SetFaults(always(memlog.OpDisown, fault))
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				require.Error(t, tenure.Resign(ctx))
				time.Sleep(time.Minute)
				s.leases.SetFaults(nil)
				s.takes(t)
				require.True(t, other.Valid(), "the process lives on")
				require.NoError(t, other.Resign(t.Context()))
			})
		})
	}
}

// A claim that takes effect, without an answer before its caller gives up, leaves no key that no process answers for.
func TestLease_ClaimWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t)
		s.ones.SetFaults(always(memlog.OpClaim, memlog.LoseAnswer))
		_, err := s.one.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
		require.ErrorIs(t, err, metalog.ErrUnavailable)
		s.takes(t)
	})
}

// A claim arrives long after its caller gave up. The watch shows the key, and the process removes it.
func TestLease_ClaimThatArrivesLate(t *testing.T) {
	for name, tt := range map[string]struct {
		holds int // requests held back
		owns  bool
	}{"of a caller that gave up": {holds: 1 << 30}, "of a tenure that was resigned": {holds: 1, owns: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t)
				s.ones.SetFaults(func(op memlog.Op) memlog.Fault {
					if op.Kind == memlog.OpClaim && tt.holds > 0 {
						tt.holds--
						return memlog.Hold
					}
					return memlog.Pass
				})
				tenure, err := s.one.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
				if tt.owns {
					require.NoError(t, err)
					require.NoError(t, tenure.Resign(t.Context()))
				} else {
					require.ErrorIs(t, err, metalog.ErrUnavailable)
				}
				time.Sleep(time.Minute)
				s.leases.SetFaults(always(memlog.OpDisown, memlog.LoseRequest))
				s.ones.Release()
				time.Sleep(10 * time.Second)
				st, err := s.rival.Status(t.Context())
				require.NoError(t, err)
				require.True(t, st.Owned, "the late claim has taken effect")
				s.leases.SetFaults(nil)
				s.takes(t)
			})
		})
	}
}

// A renewal that is answered after the lease was lost, and another one granted, revives no tenure of the former grant.
func TestLease_LateRenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t)
		former, other := acquire(t, s.one, "a"), acquire(t, s.two, "a")
		s.leases.SetFaults(always(memlog.OpRenew, memlog.Hold))
		<-former.Lost()
		<-other.Lost()
		require.NoError(t, other.Resign(t.Context()))
		again := acquire(t, s.two, "a")
		s.leases.Release()
		time.Sleep(time.Minute)
		require.False(t, former.Valid())
		require.False(t, other.Valid())
		require.True(t, again.Valid())
		_, err := other.Append(t.Context(), 1, []byte("stale"))
		require.ErrorIs(t, err, metalog.ErrFenced)
		require.NoError(t, former.Resign(t.Context()))
		require.True(t, again.Valid())
		require.NoError(t, again.Resign(t.Context()))
	})
}

// The watch of ownership keys is held back while the lease is renewed: tenures end in time, all of them, and later ones are valid.
func TestLease_FencesItselfIfItsWatchIsNotCurrent(t *testing.T) {
	for name, faults := range map[string]map[memlog.OpKind]memlog.Fault{
		"watch held back, and reads hang":  {memlog.OpWatch: memlog.Hold, memlog.OpOwners: memlog.Hang},
		"watch breaks, and reads hang":     {memlog.OpWatch: memlog.LoseAnswer, memlog.OpOwners: memlog.Hang},
		"the revision is not read":         {memlog.OpNow: memlog.Hang},
		"watch and reads are not answered": {memlog.OpWatch: memlog.Hang, memlog.OpOwners: memlog.LoseAnswer},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t)
				tenure, other := acquire(t, s.one, "a"), acquire(t, s.two, "a")
				time.Sleep(10 * time.Second)
				start := time.Now()
				s.leases.SetFaults(func(op memlog.Op) memlog.Fault { return faults[op.Kind] })
				s.store.RemoveOwner()
				rivals := acquire(t, s.rival, "b")
				<-tenure.Lost()
				<-other.Lost()
				require.LessOrEqual(t, time.Since(start), 3500*time.Millisecond)
				require.False(t, tenure.Valid())
				require.False(t, other.Valid())
				require.False(t, s.one.Ownership().Known)
				require.True(t, rivals.Valid())
				s.leases.Release()
				require.NoError(t, tenure.Resign(t.Context()))
				require.NoError(t, other.Resign(t.Context()))
				time.Sleep(10 * time.Second)
				require.False(t, other.Valid(), "a later view revives no tenure")
				require.Equal(t, metalog.Owner{Replica: "b", Tenure: rivals.ID()}, s.one.Ownership().Owner)
				require.NoError(t, rivals.Resign(t.Context()))
				require.NoError(t, acquire(t, s.one, "a").Resign(t.Context()))
			})
		})
	}
}

// A watch that shows nothing any more, without an error, is begun anew before the fence falls.
func TestLease_BeginsASilentWatchAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t)
		tenure := acquire(t, s.two, "a")
		s.leases.SetFaults(once(memlog.OpWatch, memlog.Hang))
		rivals := acquire(t, s.rival, "b")
		time.Sleep(3 * time.Second)
		require.True(t, tenure.Valid())
		require.Equal(t, "b", s.one.Ownership().Owner.Replica)
		require.NoError(t, rivals.Resign(t.Context()))
		require.NoError(t, tenure.Resign(t.Context()))
	})
}

// A backup of the store is restored under a running replica. Its lease is in the backup, and the newer of its ownership keys is not.
func TestLease_StoreGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t)
		older := acquire(t, s.one, "a")
		for range 5 {
			newer := acquire(t, s.two, "a")
			require.NoError(t, newer.Resign(t.Context()))
		}
		newer := acquire(t, s.two, "a")
		time.Sleep(time.Second)
		start := time.Now()
		s.store.Restore(older.ID(), 0)
		<-newer.Lost()
		require.LessOrEqual(t, time.Since(start), 2*time.Second)
		require.NoError(t, newer.Resign(t.Context()))
		time.Sleep(10 * time.Second)
		require.True(t, older.Valid())
		again := acquire(t, s.two, "a")
		require.Less(t, again.ID(), newer.ID())
		time.Sleep(10 * time.Second)
		require.True(t, again.Valid())
		require.NoError(t, again.Resign(t.Context()))
		require.NoError(t, older.Resign(t.Context()))
	})
}

// A backup is restored under a running replica with a higher revision than the store had. The backup lacks the ownership key of another replica,
// and the watch shows no removal.
func TestLease_StoreIsRestoredAtAHigherRevision(t *testing.T) {
	for name, learn := range map[string]func(t *testing.T, s *sharing){
		"a linearizable read shows it": func(t *testing.T, s *sharing) {
			t.Helper()
			st, err := s.one.Status(t.Context())
			require.NoError(t, err)
			require.False(t, st.Owned)
		},
		"a linearizable read shows it while the store is busy": func(t *testing.T, s *sharing) {
			t.Helper()
			tenure := acquire(t, s.two, "a")
			_, err := s.one.Status(t.Context())
			require.NoError(t, err)
			require.NoError(t, tenure.Resign(t.Context()))
		},
		"the store has another history": func(_ *testing.T, s *sharing) { s.store.NewHistory() },
		"the store was away": func(_ *testing.T, s *sharing) {
			s.leases.SetFaults(always(memlog.OpNow, memlog.Hang))
			time.Sleep(5 * time.Second) // sleeps: virtual time of the bubble
			s.leases.SetFaults(nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t)
				rivals := acquire(t, s.rival, "b")
				time.Sleep(time.Second) // sleeps: virtual time of the bubble
				require.Equal(t, "b", s.one.Ownership().Owner.Replica)
				s.store.Restore(rivals.ID()-1, 1000)
				learn(t, s)
				time.Sleep(5 * time.Second) // sleeps: virtual time of the bubble
				seen := s.one.Ownership()
				require.True(t, seen.Known)
				require.False(t, seen.Owned)
				tenure := acquire(t, s.one, "a")
				synctest.Wait()
				require.True(t, s.one.Ownership().Owned)
				require.NoError(t, tenure.Resign(t.Context()))
				require.NoError(t, rivals.Resign(t.Context()))
			})
		})
	}
}

// A replica reads the owner of a log again and again, while another replica claims the log and resigns. It does not read all keys anew.
func TestLease_ChangesOfOwnershipAreNoContradiction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t)
		var reads atomic.Int64
		s.leases.SetFaults(func(op memlog.Op) memlog.Fault {
			if op.Kind == memlog.OpOwners {
				reads.Add(1)
			}
			return memlog.Pass
		})
		for range 20 {
			tenure := acquire(t, s.rival, "b")
			_, err := s.one.Status(t.Context())
			require.NoError(t, err)
			require.NoError(t, tenure.Resign(t.Context()))
			_, err = s.one.Status(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Second) // sleeps: virtual time of the bubble
		}
		require.LessOrEqual(t, reads.Load(), int64(1))
	})
}

// Each change of the ownership of a log closes Changed, and a removed key ends the tenure at once.
func TestLog_Ownership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t)
		synctest.Wait()
		before := s.one.Ownership()
		require.True(t, before.Known)
		require.False(t, before.Owned)
		tenure := acquire(t, s.one, "a")
		other := acquire(t, s.two, "a")
		<-before.Changed
		owned := s.one.Ownership()
		require.Equal(t, metalog.Ownership{Owner: metalog.Owner{Replica: "a", Tenure: tenure.ID()}, Owned: true, Known: true, Changed: owned.Changed}, owned)
		start := time.Now()
		s.store.RemoveOwner()
		<-tenure.Lost()
		<-owned.Changed
		require.Zero(t, time.Since(start))
		require.False(t, s.one.Ownership().Owned)
		require.True(t, other.Valid())
		require.NoError(t, tenure.Resign(t.Context()))
		require.NoError(t, other.Resign(t.Context()))
		require.Equal(t, metalog.Ownership{}, s.rival.Ownership(), "a log without a lease has no watch")
	})
}

// The lease that is not granted yet is waited for. A store that is away for long gives ErrUnavailable.
func TestLease_GrantedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t)
		tenure := acquire(t, s.two, "a")
		s.leases.CutOff()
		<-tenure.Lost()
		require.ErrorIs(t, tenure.Resign(t.Context()), metalog.ErrUnavailable)
		start := time.Now()
		_, err := s.one.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
		require.ErrorIs(t, err, metalog.ErrUnavailable)
		require.LessOrEqual(t, time.Since(start), 8*time.Second)
		time.AfterFunc(3*time.Second, func() { s.leases.SetFaults(nil) })
		require.NoError(t, acquire(t, s.one, "a").Resign(t.Context()))
	})
}

func TestLog_AcquireWithoutALease(t *testing.T) {
	l, err := metalog.New(memlog.New().Connect("a"), metalog.Config{})
	require.NoError(t, err)
	_, err = l.Acquire(t.Context(), metalog.Candidate{Replica: "a"})
	require.ErrorContains(t, err, "without a lease")
}

// The requests of a process do not grow with its virtual clusters.
func TestLease_RequestsOfFiftyVirtualClusters(t *testing.T) {
	const clusters, seconds = 50, 60
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%t", shared), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				count := map[memlog.OpKind]int{}
				counted := func(op memlog.Op) memlog.Fault { count[op.Kind]++; return memlog.Pass }
				store := memlog.New()
				ways := []*memlog.Replica{store.Connect("a")}
				cfg := metalog.Config{}
				if shared {
					lease, err := metalog.NewLease(ways[0], cfg)
					require.NoError(t, err)
					t.Cleanup(memlog.Start(lease))
					cfg.Lease = lease
				}
				for range clusters {
					l, way, err := store.Another().Open("a", cfg)
					require.NoError(t, err)
					tenure := acquire(t, l, "a")
					t.Cleanup(func() { _ = tenure.Resign(context.Background()) })
					ways = append(ways, way)
				}
				synctest.Wait()
				one := make(chan struct{}, 1) // the ways count one at a time
				for _, way := range ways {
					way.SetFaults(func(op memlog.Op) memlog.Fault {
						one <- struct{}{}
						defer func() { <-one }()
						return counted(op)
					})
				}
				time.Sleep(seconds * time.Second)
				for _, way := range ways {
					way.SetFaults(nil)
				}
				synctest.Wait()
				t.Logf("%d virtual clusters: %d renewals and %d reads of the revision a second", clusters, count[memlog.OpRenew]/seconds, count[memlog.OpNow]/seconds)
				if shared {
					for kind, n := range count {
						require.InDelta(t, 2*seconds, n, 2, kind)
					}
				}
			})
		})
	}
}
