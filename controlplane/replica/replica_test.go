package replica_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
	"github.com/freshet-io/freshet/objstore"
)

func TestReplica_BootstrapsAnEmptyLogOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		clusterID := func(n *node) (id string) {
			w.propose(n)
			_, err := n.Owner().Read(func(s *metadata.State) { id = s.ClusterID() })
			require.NoError(t, err)
			return id
		}
		id := clusterID(a)
		require.Regexp(t, `^[A-Za-z0-9_][A-Za-z0-9_-]{21}$`, id)
		located, ok := a.Located()
		require.True(t, ok)
		require.Equal(t, "a:7050", located.Address)
		w.stop(a)

		b := w.start("b")
		w.waitOwner(b, time.Second)
		require.Equal(t, id, clusterID(b))
		w.stop(b)
	})
}

func TestReplica_HandsOverInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		b := w.start("b")
		for range 10 {
			w.propose(a)
		}
		begin := time.Now()
		a.cancel()
		w.waitOwner(b, 500*time.Millisecond)
		require.LessOrEqual(t, time.Since(begin), 500*time.Millisecond)
		require.NoError(t, <-a.ended)
		require.Equal(t, wantNames(10), w.names(b))
		w.stop(b)
	})
}

// Sessions that do not end do not keep ownership.
func TestReplica_HandsOverThoughSessionsHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		w := newWorld(t, func(c *replica.Config) {
			if c.Replica == "a" {
				c.OnOwner = func(*owner.Owner) func() { return func() { <-release } }
			}
		})
		a := w.start("a")
		w.waitOwner(a, time.Second)
		b := w.start("b")
		synctest.Wait()
		a.cancel()
		w.waitOwner(b, 500*time.Millisecond)
		close(release)
		require.NoError(t, <-a.ended)
		w.stop(b)
	})
}

// The owner is cut off with an append in flight, in both outcomes: the other replica owns in time, with everything
// that was answered; the old owner refuses reads, and follows once it is back.
func TestReplica_OwnerCutOff(t *testing.T) {
	for name, fault := range map[string]memlog.Fault{"append arrives": memlog.LoseAnswer, "append lost": memlog.LoseRequest} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				a := w.start("a")
				w.waitOwner(a, time.Second)
				b := w.start("b")
				w.propose(a)
				w.propose(a)
				old := a.Owner()
				seen := false
				a.net.SetFaults(func(op memlog.Op) memlog.Fault {
					if op.Kind == memlog.OpAppend && !seen {
						seen = true
						return fault
					}
					return memlog.Hang
				})
				_, _, err := old.Propose(t.Context(), topic(3))
				var unknown *owner.OutcomeUnknownError
				require.ErrorAs(t, err, &unknown)
				took := w.waitOwner(b, 7*time.Second)
				require.LessOrEqual(t, took, 7*time.Second)
				_, err = old.Read(func(*metadata.State) {})
				require.ErrorIs(t, err, owner.ErrNotOwner)
				want := 2
				if fault == memlog.LoseAnswer {
					want = 3
				}
				require.Equal(t, wantNames(want), w.names(b))
				w.topics = want
				w.propose(b)

				a.net.SetFaults(nil)
				time.Sleep(10 * time.Second)
				require.Nil(t, a.Owner())
				w.stop(b)
				w.waitOwner(a, time.Second)
				require.Equal(t, wantNames(want+1), w.names(a))
				w.stop(a)
			})
		})
	}
}

// The owner is stopped, requests in its send buffer, until another one owns, then woken.
func TestReplica_OwnerStoppedPastItsLeaseThenWoken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		b := w.start("b")
		w.propose(a)
		old := a.Owner()
		a.net.Stop()
		stale, err := old.Enqueue(t.Context(), topic(99))
		require.NoError(t, err)
		w.waitOwner(b, 7*time.Second)
		w.propose(b)
		a.net.Release()
		_, _, err = stale.Wait(t.Context())
		require.ErrorIs(t, err, owner.ErrNotOwner)
		_, err = old.Read(func(*metadata.State) {})
		require.ErrorIs(t, err, owner.ErrNotOwner)
		_, _, err = old.Propose(t.Context(), topic(98))
		require.ErrorIs(t, err, owner.ErrNotOwner)
		time.Sleep(time.Second)
		require.Equal(t, wantNames(2), w.names(b))
		w.stop(b, a)
	})
}

// The owner is cut off between the entries of one large command: it never happened, and the log goes on behind it.
func TestReplica_VoidsACommandCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		b := w.start("b")
		w.propose(a)
		appends := 0
		a.net.SetFaults(func(op memlog.Op) memlog.Fault {
			if op.Kind == memlog.OpAppend {
				appends++
			}
			if appends > 2 {
				return memlog.Hang
			}
			return memlog.Pass
		})
		_, _, err := a.Owner().Propose(t.Context(), &metadata.SetConfigs{
			Resource: metadata.ConfigBroker, Set: map[string]string{"large": string(make([]byte, 1<<20))},
		})
		require.Error(t, err)
		w.waitOwner(b, 7*time.Second)
		w.propose(b)
		_, err = b.Owner().Read(func(s *metadata.State) { require.Empty(t, s.Configs(metadata.ConfigBroker, "")) })
		require.NoError(t, err)
		a.net.SetFaults(nil)
		time.Sleep(time.Second)
		w.stop(b)
		w.waitOwner(a, time.Second)
		require.Equal(t, wantNames(2), w.names(a))
		w.stop(a)
	})
}

// Two replicas and a network that fails for one, the other, or both, again and again: answered commands stay, in
// order, once; commands that failed with a known outcome are not there.
func TestReplica_Fighting(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			w := newWorld(t, smallSnapshots)
			nodes := []*node{w.start("a"), w.start("b")}
			var answered, unknown, refused []string
			for i := 1; i < 300; i++ {
				if rng.IntN(30) == 0 {
					f := memlog.Fault(rng.IntN(4))
					nodes[rng.IntN(2)].net.SetFaults(func(memlog.Op) memlog.Fault { return f })
				}
				time.Sleep(time.Duration(rng.Int64N(int64(500 * time.Millisecond))))
				own := nodes[rng.IntN(2)].Owner()
				if own == nil {
					continue
				}
				name := topic(i).Name
				_, _, err := own.Propose(t.Context(), topic(i))
				var u *owner.OutcomeUnknownError
				switch {
				case err == nil:
					answered = append(answered, name)
				case errors.As(err, &u):
					unknown = append(unknown, name)
				default:
					refused = append(refused, name)
				}
			}
			for _, n := range nodes {
				n.net.SetFaults(nil)
			}
			var own *node
			w.waitFor("an owner", 20*time.Second, func() bool {
				for _, n := range nodes {
					if o := n.Owner(); o != nil && n.owned.Load() > 0 {
						if _, err := o.Read(func(*metadata.State) {}); err == nil {
							own = n
						}
					}
				}
				return own != nil
			})
			got := w.names(own)
			require.Subset(t, got, answered)
			for _, name := range refused {
				require.NotContains(t, got, name)
			}
			require.LessOrEqual(t, len(got), len(answered)+len(unknown))
			require.NotEmpty(t, answered)
			w.stop(nodes...)
		})
	}
}

// A follower that missed so much that the log was trimmed past it starts over from a snapshot, and can own.
func TestReplica_FollowerBehindTheTrimPoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, smallSnapshots)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		b := w.start("b")
		w.propose(a)
		time.Sleep(time.Second)
		b.net.CutOff()
		for range 5 {
			w.fill(a, 12_000)
			w.propose(a)
			time.Sleep(2 * time.Second)
		}
		first, _ := w.store.Indexes()
		require.Greater(t, first, uint64(20), "the log was trimmed")
		refs := w.refs()
		require.Len(t, refs, 2)
		require.Equal(t, refs[1].Index+1, first, "up to the second newest snapshot")

		b.net.SetFaults(nil)
		w.stop(a)
		w.waitOwner(b, 20*time.Second)
		require.Equal(t, wantNames(6), w.names(b))
		w.stop(b)
	})
}

// The newest snapshot is torn when the log was trimmed behind it already: the second newest serves, and the next
// snapshot does not count the torn one.
func TestReplica_NewestSnapshotTorn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, smallSnapshots)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		for range 4 {
			w.fill(a, 12_000)
			w.propose(a)
			time.Sleep(time.Second)
		}
		w.propose(a)
		w.stop(a)
		refs := w.refs()
		require.Len(t, refs, 2)
		require.NoError(t, w.bucket.Delete(t.Context(), []string{refs[0].Name + "/part-00000"}))

		b := w.start("b")
		w.waitOwner(b, 5*time.Second)
		require.Equal(t, wantNames(5), w.names(b))
		w.fill(b, 12_000)
		time.Sleep(2 * time.Second)
		now := w.refs()
		require.Len(t, now, 2)
		require.Greater(t, now[0].Index, refs[0].Index)
		require.Equal(t, refs[1], now[1], "the torn one is passed over")
		w.stop(b)
	})
}

func TestReplica_OldSnapshotsAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, smallSnapshots)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		for range 6 {
			w.fill(a, 12_000)
			time.Sleep(time.Second)
		}
		infos, err := w.bucket.List(t.Context(), prefix, "", 1000)
		require.NoError(t, err)
		require.Len(t, infos, 4, "two snapshots of a part and a manifest")
		w.stop(a)
	})
}

func TestReplica_SnapshotsByTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *replica.Config) { c.SnapshotMinBytes = 5000 })
		a := w.start("a")
		w.waitOwner(a, time.Second)
		time.Sleep(20 * time.Minute)
		require.Empty(t, w.refs(), "ticks alone are worth no snapshot")
		w.fill(a, 6000)
		time.Sleep(10 * time.Second) // rounds had become rare
		require.Len(t, w.refs(), 1)
		w.fill(a, 6000)
		time.Sleep(4 * time.Minute)
		require.Len(t, w.refs(), 1)
		time.Sleep(2 * time.Minute)
		require.Len(t, w.refs(), 2)
		w.stop(a)
	})
}

// The interval between snapshots goes on over changes of the owner, else there were none while owners last less.
func TestReplica_SnapshotsByTimeOverShortTenures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *replica.Config) { c.SnapshotMinBytes = 5000 })
		for range 12 { // of a minute each
			n := w.start("a")
			w.waitOwner(n, time.Second)
			w.fill(n, 6000)
			time.Sleep(time.Minute)
			w.stop(n)
		}
		refs := w.refs()
		require.Len(t, refs, 2)
		between := time.UnixMilli(refs[0].AtMs).Sub(time.UnixMilli(refs[1].AtMs))
		require.InDelta(t, 5*time.Minute, between, float64(time.Minute))
	})
}

// A replica that replays a long log names the current owner meanwhile.
func TestReplica_LocatesWhileCatchingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *replica.Config) { c.ReadBytes = 1 })
		a := w.start("a")
		w.waitOwner(a, time.Second)
		for range 100 {
			w.propose(a)
		}
		w.stop(a)
		hangs := false // each second read, for 1 s
		slow := w.startFaulty("slow", func(op memlog.Op) memlog.Fault {
			if op.Kind != memlog.OpRange {
				return memlog.Pass
			}
			if hangs = !hangs; hangs {
				return memlog.Hang
			}
			return memlog.Pass
		})
		time.Sleep(time.Second)
		_, ok := slow.Located()
		require.False(t, ok)
		b := w.start("b")
		w.waitOwner(b, time.Second)
		time.Sleep(3 * time.Second)
		o, ok := slow.Located()
		require.True(t, ok)
		require.Equal(t, "b", o.Replica)
		require.Zero(t, slow.owned.Load())
		w.stop(slow, b)
	})
}

// With the bucket down the log grows to its budget and then refuses, also under the next owner; it heals when
// snapshots succeed again.
func TestReplica_SnapshotsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, smallSnapshots)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		w.bucket.down.Store(true)
		var err error
		n := 0
		for ; err == nil; n++ {
			require.Less(t, n, 200, "the budget holds")
			_, _, err = a.Owner().Propose(t.Context(), &metadata.SetConfigs{
				Resource: metadata.ConfigBroker, Set: map[string]string{"fill": string(make([]byte, 1000))},
			})
		}
		require.ErrorIs(t, err, metalog.ErrLogFull)
		require.Greater(t, n, 70)
		time.Sleep(10 * time.Minute)
		_, err = a.Owner().Read(func(*metadata.State) {})
		require.NoError(t, err, "reads go on")

		b := w.start("b")
		w.stop(a)
		w.waitOwner(b, time.Second)
		a = b
		w.bucket.down.Store(false)
		w.waitFor("healing", 5*time.Minute, func() bool {
			_, _, err := a.Owner().Propose(t.Context(), topic(1))
			return err == nil
		})
		w.fill(a, 100_000)
		w.stop(a)
	})
}

func TestReplica_StopsOnHashMismatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, smallSnapshots)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		b := w.start("b")
		w.fill(a, 30_000)
		time.Sleep(5 * time.Second)
		require.NotEmpty(t, w.refs(), "true hashes pass")
		select {
		case err := <-b.ended:
			require.NoError(t, err)
			t.Fatal("replica ended")
		default:
		}
		_, index, err := a.Owner().Propose(t.Context(), &metadata.CheckHash{})
		require.NoError(t, err)
		_, _, err = a.Owner().Propose(t.Context(), &metadata.CheckHash{Index: index, Hash: 1})
		require.NoError(t, err)
		require.ErrorIs(t, <-b.ended, replica.ErrHashMismatch)
		w.stop(a)
	})
}

func TestReplica_ClockOffTakesNoOwnership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.bucket.skew.Store(int64(31 * time.Second))
		a := w.start("a")
		time.Sleep(time.Minute)
		require.Nil(t, a.Owner())
		require.ErrorContains(t, a.Fault(), "clock is -31s ahead, the limit is 30s in both directions", "/readyz names the reason")
		w.bucket.skew.Store(int64(-29 * time.Second))
		w.waitOwner(a, time.Minute)
		w.stop(a)
	})
}

// Trims leave more extents than one Tick takes from their bundles. The owner does not wait an interval for each further Tick, and goes on
// with commands meanwhile.
func TestReplica_TrimmedExtentsGoAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const partitions, commits = 2000, 100
		w := newWorld(t, nil)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		propose := func(c metadata.Command) {
			result, _, err := a.Owner().Propose(t.Context(), c)
			require.NoError(t, err)
			require.NoError(t, result.Err)
		}
		left := func() (extents, waiting int64) {
			_, err := a.Owner().Read(func(s *metadata.State) { extents, waiting = s.Load().Extents, s.CleanupExtents() })
			require.NoError(t, err)
			return extents, waiting
		}
		topic := id.Topic{1}
		propose(&metadata.CreateTopic{ID: topic, Name: "t", Partitions: partitions})
		propose(&metadata.OpenSession{Instance: "i"})
		var b commit.Builder
		for n := range uint32(commits) {
			b.Reset(commit.Header{Submission: id.Submission{Session: 1, N: n + 1}, Bytes: 1 << 20})
			for p := range int32(partitions) {
				b.Section(commit.Section{Partition: id.TopicPartition{Topic: topic, Partition: p}, Position: uint32(16 + 100*p)})
				b.Batch(commit.Batch{Records: 1, Bytes: 100, MaxTimestamp: 1, ProducerID: -1})
			}
			propose(&metadata.CommitBundle{Encoded: b.AppendTo(nil)})
		}
		trims := &metadata.TrimPartitions{}
		for p := range int32(partitions) {
			trims.Trims = append(trims.Trims, metadata.Trim{Partition: id.TopicPartition{Topic: topic, Partition: p}, Offset: -1})
		}
		propose(trims)
		extents, waiting := left()
		require.EqualValues(t, partitions*commits, extents)
		require.EqualValues(t, partitions*commits, waiting)
		w.waitFor("the first Tick", 11*time.Second, func() bool { _, now := left(); return now < waiting })
		w.propose(a)
		_, waiting = left()
		require.Positive(t, waiting, "the command waited for none of them")
		w.waitFor("cleanup", 5*time.Second, func() bool { extents, waiting := left(); return extents == 0 && waiting == 0 })
		w.stop(a)
	})
}

// An owner whose clock went off serves on, but nothing expires by it until it is right again.
func TestReplica_ClockOffExpiresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.start("a")
		w.waitOwner(a, 10*time.Second)
		_, _, err := a.Owner().Propose(t.Context(), &metadata.OpenSession{Instance: "i"})
		require.NoError(t, err)
		_, _, err = a.Owner().Propose(t.Context(), &metadata.CloseSession{Session: 1})
		require.NoError(t, err)
		known := func() (ok bool) {
			_, err := a.Owner().Read(func(s *metadata.State) { _, ok = s.Session(1) })
			require.NoError(t, err)
			return ok
		}
		w.bucket.skew.Store(int64(-time.Hour))
		time.Sleep(20 * time.Minute)
		w.propose(a)
		require.True(t, known(), "closed for more than ten minutes, by a clock that is off")
		w.bucket.skew.Store(0)
		w.waitFor("expiry", time.Minute, func() bool { return !known() })
		w.stop(a)
	})
}

// Command time is that of this machine's clock while it agrees with the store's, and does not follow a step of a day.
func TestReplica_CommandTimeIsTheComparedClocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		var ahead atomic.Int64
		ahead.Store(int64(20 * time.Second))
		w.before = func(r *replica.Replica) {
			r.SetWall(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
		}
		a := w.start("a")
		w.waitOwner(a, time.Second)
		w.propose(a)
		require.InDelta(t, time.Now().Add(20*time.Second).UnixMilli(), w.now(a), 100)
		ahead.Store(int64(24 * time.Hour))
		time.Sleep(time.Minute)
		w.propose(a)
		require.InDelta(t, time.Now().Add(20*time.Second).UnixMilli(), w.now(a), 100)
		w.stop(a)
	})
}

// A replica starts a year ahead while the store tells no time: what it owns ages by the time that passes, and no more.
func TestReplica_StartsAheadOfASilentStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		w.propose(a)
		before := w.now(a)
		w.stop(a)

		w.bucket.silent.Store(true)
		w.before = func(r *replica.Replica) { r.SetWall(func() time.Time { return time.Now().Add(365 * 24 * time.Hour) }) }
		b := w.start("b")
		w.waitOwner(b, 5*time.Second)
		time.Sleep(time.Minute)
		w.propose(b)
		require.InDelta(t, time.Minute.Milliseconds(), w.now(b)-before, 5000)
		w.stop(b)
	})
}

// The first entry of a log waits for the store's clock: no entry before it bounds its time.
func TestReplica_EmptyLogWaitsForTheStoresClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		w.bucket.silent.Store(true)
		a := w.start("a")
		time.Sleep(time.Minute)
		require.Nil(t, a.Owner())
		w.bucket.silent.Store(false)
		w.waitOwner(a, 5*time.Second)
		w.stop(a)
	})
}

// A process that knows its former self to be dead need not wait for that one's lease.
func TestReplica_TakesOverItsFormerSelf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *replica.Config) { c.TakeOver = true })
		dead := w.start("a")
		w.waitOwner(dead, time.Second)
		w.propose(dead)
		dead.net.CutOff()
		again := w.start("a")
		w.waitOwner(again, 200*time.Millisecond)
		require.Equal(t, wantNames(1), w.names(again))
		time.Sleep(10 * time.Second)
		w.stop(again)
		// The dead one stays dead in this test: it only gives its lease back.
		dead.cancel()
		dead.net.SetFaults(nil)
		require.NoError(t, <-dead.ended)
	})
}

// A log that lost entries which this replica has applied is no log to follow.
func TestReplica_StopsWhenTheLogLostEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		a := w.start("a")
		w.waitOwner(a, time.Second)
		b := w.start("b")
		for range 5 {
			w.propose(a)
		}
		time.Sleep(time.Second)
		w.store.Lose(2)
		require.ErrorIs(t, <-b.ended, metalog.ErrAhead)
		w.stop(a)
	})
}

func TestConfig_Validate(t *testing.T) {
	_, err := replica.New(replica.Config{SnapshotPrefix: "/x", SnapshotBytes: 1 << 40})
	for _, fault := range []string{"no replica id", "no log or no bucket", "snapshot prefix", "log budget"} {
		require.ErrorContains(t, err, fault)
	}
}

var _ objstore.Bucket = (*bucket)(nil)

// A cold replica reads neither log nor snapshots while another one owns the log, knows the owner, and takes over as soon as the key is gone.
func TestReplica_Cold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *replica.Config) { smallSnapshots(c); c.Cold, c.ClusterID = c.Replica != "a", "id" })
		a := w.start("a")
		w.waitOwner(a, time.Second)
		for range 10 {
			w.propose(a)
		}
		var reads atomic.Int64
		count := func(op memlog.Op) memlog.Fault {
			if op.Kind == memlog.OpView || op.Kind == memlog.OpRange || op.Kind == memlog.OpSnapshots {
				reads.Add(1)
			}
			return memlog.Pass
		}
		b := w.startFaulty("b", count)
		time.Sleep(5 * time.Minute)
		require.Zero(t, reads.Load())
		o, ok := b.Located()
		require.True(t, ok)
		require.Equal(t, "a", o.Replica)
		require.Equal(t, "id", b.ClusterID())
		require.NoError(t, b.Fault())

		w.stop(a)
		w.waitOwner(b, 150*time.Millisecond)
		require.Equal(t, wantNames(10), w.names(b))
		w.propose(b)

		a = w.start("a") // warm
		time.Sleep(time.Minute)
		w.stop(b)
		w.waitOwner(a, 150*time.Millisecond)
		require.Equal(t, wantNames(11), w.names(a))
		w.stop(a)
	})
}

// A cold replica that starts again before the key of its earlier process expires reads nothing until then. One that waits for its admission loads
// nothing once another one owns the log.
func TestReplica_ColdLoadsNothingInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		admitted := make(chan struct{})
		w := newWorld(t, func(c *replica.Config) {
			c.Cold = true
			if c.Replica == "slow" {
				c.Admit = func(context.Context) (func(), error) {
					<-admitted
					return func() {}, nil
				}
			}
		})
		a := w.start("a")
		w.waitOwner(a, time.Second)
		w.propose(a)
		a.net.CutOff() // its key stays until the lease expires
		a.cancel()
		require.NoError(t, <-a.ended)
		var reads atomic.Int64
		count := func(op memlog.Op) memlog.Fault {
			if op.Kind == memlog.OpView || op.Kind == memlog.OpRange || op.Kind == memlog.OpSnapshots {
				reads.Add(1)
			}
			return memlog.Pass
		}
		again := w.startFaulty("a", count)
		time.Sleep(time.Second)
		require.Zero(t, again.owned.Load())
		require.LessOrEqual(t, reads.Load(), int64(1), "before the first view of the keys")
		w.waitOwner(again, 10*time.Second)
		again.net.SetFaults(nil)

		slow := w.start("slow")
		time.Sleep(time.Second)
		again.HandOver() // "slow" waits for its admission, and the former owner takes the log again
		time.Sleep(time.Second)
		w.waitOwner(again, time.Second)
		reads.Store(0)
		slow.net.SetFaults(count)
		time.Sleep(time.Second)
		close(admitted)
		time.Sleep(time.Second)
		require.Zero(t, reads.Load())
		w.stop(slow, again)
	})
}

// A cold replica that cannot see the ownership keys waits, and does not take the log.
func TestReplica_ColdWithoutAView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *replica.Config) { c.Cold = c.Replica == "b" })
		a := w.start("a")
		w.waitOwner(a, time.Second)
		b := w.start("b")
		time.Sleep(time.Second)
		b.net.CutOff()
		time.Sleep(time.Minute)
		_, ok := b.Located()
		require.False(t, ok)
		require.Zero(t, b.owned.Load())
		b.net.SetFaults(nil)
		w.stop(a)
		w.waitOwner(b, 10*time.Second)
		w.stop(b)
	})
}

// A backup of the store is restored at a higher revision under running replicas. It lacks the ownership key, and no watch shows that. A warm replica
// notices it in its next round. The former owner notices it with the next command, while a cold replica takes the log for owned.
func TestReplica_StoreIsRestoredAtAHigherRevision(t *testing.T) {
	for name, cold := range map[string]bool{"warm": false, "cold": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, func(c *replica.Config) { c.Cold = cold })
				a := w.start("a")
				w.waitOwner(a, time.Second)
				w.propose(a)
				b := w.start("b")
				time.Sleep(time.Minute)
				former, ok := b.Located()
				require.True(t, ok)
				w.store.Restore(former.Tenure-1, 1000)
				next := b
				if cold {
					_, _, err := a.Owner().Propose(t.Context(), topic(2))
					require.ErrorIs(t, err, owner.ErrNotOwner)
					next = a
				}
				w.waitFor("a new tenure", 5*time.Second, func() bool {
					o, ok := next.Located()
					return ok && o.Tenure > former.Tenure && next.Owner() != nil
				})
				w.propose(next)
				require.Equal(t, wantNames(2), w.names(next))
				w.stop(a, b)
			})
		})
	}
}

// Replicas claim in turn, the former owner last. An owner that hands over gives the better placed replica the time to claim.
func TestReplica_Turns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rank := map[string]int{"a": 0, "b": 1, "c": 2}
		w := newWorld(t, func(c *replica.Config) {
			self := c.Replica
			c.Turn = func(former string) time.Duration {
				if former == self {
					return time.Second
				}
				return 200 * time.Millisecond * time.Duration(rank[self])
			}
		})
		c := w.start("c")
		w.waitOwner(c, time.Second)
		b := w.start("b")
		time.Sleep(time.Minute)
		c.HandOver()
		w.waitOwner(b, 400*time.Millisecond)
		a := w.start("a")
		time.Sleep(time.Minute)
		b.HandOver()
		w.waitOwner(a, 200*time.Millisecond)
		b.HandOver() // has no effect
		w.propose(a)
		time.Sleep(time.Second)
		w.stop(a)
		w.waitOwner(b, 400*time.Millisecond)
		time.Sleep(time.Second)
		b.HandOver()
		time.Sleep(2 * time.Second)
		w.waitOwner(c, time.Millisecond)
		w.stop(b, c)
	})
}

// A replica that waits for its admission leaves the log to another one.
func TestReplica_WaitsForAdmission(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		admitted := make(chan struct{})
		var open atomic.Int64
		w := newWorld(t, func(c *replica.Config) {
			if c.Replica == "slow" {
				c.Admit = func(ctx context.Context) (func(), error) {
					select {
					case <-admitted:
						open.Add(1)
						return func() { open.Add(-1) }, nil
					case <-ctx.Done():
						return nil, ctx.Err()
					}
				}
			}
		})
		slow := w.start("slow")
		time.Sleep(time.Minute)
		require.Zero(t, slow.owned.Load())
		b := w.start("b")
		w.waitOwner(b, time.Second)
		close(admitted)
		time.Sleep(time.Second)
		require.Zero(t, open.Load(), "given back")
		w.stop(b)
		w.waitOwner(slow, time.Second)
		require.Zero(t, open.Load(), "given back once the replica serves")
		w.stop(slow)
	})
}
