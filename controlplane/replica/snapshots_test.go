package replica_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/snapshot"
	"github.com/freshet-io/freshet/objstore"
)

// alarms is what operators see of snapshots that cannot be read.
type alarms struct {
	registry *prometheus.Registry
	logs     *observer.ObservedLogs
}

// observe has the replica's metrics and errors collected.
func observe(c *replica.Config) *alarms {
	core, logs := observer.New(zapcore.ErrorLevel)
	a := &alarms{registry: prometheus.NewRegistry(), logs: logs}
	c.Registerer, c.Logger = a.registry, zap.New(core)
	return a
}

// raised returns freshet_replica_unsnapshottable.
func (a *alarms) raised(t *testing.T) bool {
	t.Helper()
	err := testutil.GatherAndCompare(a.registry, strings.NewReader(`
# HELP freshet_replica_unsnapshottable 1 while no snapshot of the owned state can be read: its log is not trimmed, and commits are refused once it is full.
# TYPE freshet_replica_unsnapshottable gauge
freshet_replica_unsnapshottable 1
`), "freshet_replica_unsnapshottable")
	return err == nil
}

// mutant is a state whose encoder cuts the last byte off.
type mutant struct{ *metadata.State }

func (m mutant) Encode(w io.Writer) error {
	var buf bytes.Buffer
	if err := m.State.Encode(&buf); err != nil {
		return err
	}
	_, err := w.Write(buf.Bytes()[:buf.Len()-1])
	return err
}

// A broken encoder, whose snapshots do not decode, is found out before a pointer to its snapshots is written and before the log is trimmed. A
// replica with a sound encoder starts from the log.
func TestReplica_BrokenEncoderTrimsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen *alarms
		w := newWorld(t, func(c *replica.Config) {
			smallSnapshots(c)
			seen = observe(c)
		})
		w.before = func(r *replica.Replica) {
			r.SetEncoder(func(s *metadata.State) snapshot.Encoder { return mutant{s} })
		}
		a := w.start("a")
		w.waitOwner(a, time.Second)
		for range 3 {
			w.fill(a, 12_000)
			w.propose(a)
			time.Sleep(2 * time.Second)
		}
		require.Empty(t, w.refs())
		first, _ := w.store.Indexes()
		require.EqualValues(t, 1, first, "the log is whole")
		require.True(t, seen.raised(t))
		logged := seen.logs.All()
		require.NotEmpty(t, logged)
		require.Contains(t, logged[0].Message, "no snapshot of this state can be read")
		infos, err := w.bucket.List(t.Context(), prefix, "", 10)
		require.NoError(t, err)
		require.Empty(t, infos)
		a.net.CutOff() // as by kill -9
		a.cancel()
		require.NoError(t, <-a.ended)

		w.before = nil
		b := w.start("b")
		w.waitOwner(b, 10*time.Second)
		require.Equal(t, wantNames(3), w.names(b))
		w.fill(b, 1000)
		w.waitFor("a snapshot", 10*time.Second, func() bool { return len(w.refs()) > 0 })
		require.False(t, seen.raised(t))
		w.stop(b)
	})
}

// damaged is a sound state at the same entry that has lost all topics.
func damaged(s *metadata.State) *metadata.State {
	other := metadata.New()
	batch := &metadata.Batch{Now: s.Now(), Commands: []metadata.Command{&metadata.Bootstrap{ClusterID: s.ClusterID()}}}
	other.Apply(s.Index(), batch, nil, nil)
	return other
}

// An owner whose state is not the one that the log gives ends before a snapshot of it counts. The follower, which would find it wrong
// and end itself, takes over with the right state, and the log is still there for it.
func TestReplica_WrongOwnerEnds(t *testing.T) {
	for _, earlier := range []int{0, 2} { // snapshots that counted before
		t.Run(fmt.Sprint("after ", earlier, " snapshots"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, smallSnapshots)
				var wrong atomic.Bool
				w.before = func(r *replica.Replica) {
					r.SetEncoder(func(s *metadata.State) snapshot.Encoder {
						if wrong.Load() {
							return damaged(s)
						}
						return s
					})
				}
				a := w.start("a")
				w.waitOwner(a, time.Second)
				w.before = nil
				b := w.start("b")
				w.propose(a)
				for range earlier {
					w.fill(a, 12_000)
					w.waitSnapshot(a)
				}
				before := w.refs()
				require.Len(t, before, earlier)
				w.propose(a)
				wrong.Store(true)
				w.fill(a, 12_000)
				w.waitFor("the end of the wrong owner", time.Minute, func() bool { return len(a.ended) > 0 })
				require.ErrorIs(t, <-a.ended, replica.ErrWrongOwner)
				require.Equal(t, before, w.refs(), "no snapshot of the wrong state")

				w.waitOwner(b, 10*time.Second)
				require.Equal(t, wantNames(2), w.names(b))
				w.fill(b, 12_000)
				w.waitFor("a snapshot of the right state", time.Minute, func() bool {
					refs := w.refs()
					return len(refs) > 0 && (earlier == 0 || refs[0] != before[0])
				})
				require.NoError(t, b.Fault())
				w.stop(b)
			})
		})
	}
}

// A store that answers 404 for a while does not keep the state from being compared: the snapshots are read later.
func TestReplica_ComparesOnceTheStoreIsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var wrong atomic.Bool
		w := newWorld(t, smallSnapshots)
		w.before = func(r *replica.Replica) {
			r.SetEncoder(func(s *metadata.State) snapshot.Encoder {
				if wrong.Load() {
					return damaged(s)
				}
				return s
			})
		}
		a := w.start("a")
		w.waitOwner(a, time.Second)
		for range 2 {
			w.fill(a, 12_000)
			w.waitSnapshot(a)
		}
		before := w.refs()
		require.Len(t, before, 2)
		wrong.Store(true)
		w.bucket.lost.Store(true)
		w.fill(a, 12_000)
		time.Sleep(3 * time.Second) // sleeps: a few attempts, in the bubble
		w.bucket.lost.Store(false)
		w.waitFor("the end of the wrong owner", time.Minute, func() bool { return len(a.ended) > 0 })
		require.ErrorIs(t, <-a.ended, replica.ErrWrongOwner)
		require.Equal(t, before, w.refs())
	})
}

// stuck is a bucket whose GETs bring nothing while it is on.
type stuck struct {
	objstore.Bucket
	on   atomic.Bool
	gets atomic.Int64
}

func (b *stuck) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if b.on.Load() {
		b.gets.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return b.Bucket.Get(ctx, key, offset, length)
}

// An owner that ends while it compares its state with the log does not call a snapshot unreadable.
func TestReplica_EndsWhileItCompares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen *alarms
		var b *stuck
		w := newWorld(t, func(c *replica.Config) {
			smallSnapshots(c)
			seen = observe(c)
			b = &stuck{Bucket: c.Bucket}
			c.Bucket = b
		})
		a := w.start("a")
		w.waitOwner(a, time.Second)
		for range 2 {
			w.fill(a, 12_000)
			w.waitSnapshot(a)
		}
		require.Len(t, w.refs(), 2)
		b.on.Store(true)
		w.fill(a, 12_000)
		w.waitFor("the comparison", time.Minute, func() bool { return b.gets.Load() > 0 })
		w.stop(a)
		require.Zero(t, seen.logs.FilterMessage("snapshot cannot be read").Len())
	})
}

// Where every earlier snapshot is lost, there is nothing to compare with: the owner says so and makes a new one.
func TestReplica_NothingToCompareWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen *alarms
		w := newWorld(t, func(c *replica.Config) {
			smallSnapshots(c)
			seen = observe(c)
		})
		a := w.start("a")
		w.waitOwner(a, time.Second)
		for range 3 {
			w.fill(a, 12_000)
			w.waitSnapshot(a)
		}
		lost := w.refs()
		require.Len(t, lost, 2)
		for _, ref := range lost {
			require.NoError(t, w.bucket.Delete(t.Context(), []string{ref.Name + "/manifest"}))
		}
		w.fill(a, 12_000)
		w.waitFor("a snapshot", time.Minute, func() bool { return w.refs()[0] != lost[0] })
		require.Equal(t, 1, seen.logs.FilterMessage("the next snapshot is not compared with the log").Len())
		w.stop(a)
	})
}

// A state with a record above the bound keeps its log and raises the alarm, until the record is gone.
func TestReplica_StateTooLargeKeepsTheLog(t *testing.T) {
	defer func(bound int) { metadata.SectionBytes = bound }(metadata.SectionBytes)
	metadata.SectionBytes = 1 << 20 // commands are too small to reach the real one
	synctest.Test(t, func(t *testing.T) {
		var seen *alarms
		w := newWorld(t, func(c *replica.Config) {
			seen = observe(c)
			c.SnapshotBytes, c.Owner.SoftLogBytes, c.Owner.HardLogBytes = 1<<20, 100<<20, 200<<20
			c.SnapshotPoll = 100 * time.Millisecond
		})
		a := w.start("a")
		w.waitOwner(a, time.Second)
		set := func(c *metadata.SetConfigs) {
			c.Resource = metadata.ConfigBroker
			result, _, err := a.Owner().Propose(t.Context(), c)
			require.NoError(t, err)
			require.NoError(t, result.Err)
		}
		set(&metadata.SetConfigs{Set: map[string]string{"key": strings.Repeat("x", 2<<20)}})
		w.waitFor("the alarm", 5*time.Minute, func() bool { return seen.raised(t) })
		logged := seen.logs.All()
		require.Contains(t, logged[len(logged)-1].ContextMap()["error"], "configs record")
		kept, _ := w.store.Indexes()
		time.Sleep(10 * time.Minute)
		first, _ := w.store.Indexes()
		require.Equal(t, kept, first, "nothing was trimmed")

		set(&metadata.SetConfigs{Delete: []string{"key"}})
		w.waitFor("a snapshot", 5*time.Minute, func() bool { return !seen.raised(t) })
		w.stop(a)
	})
}

// TestReplica_LessRoomTrimsTheLog: snapshots are due after less log when there is less room. A short log has none without room at all.
func TestReplica_LessRoomTrimsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var room atomic.Uint64
		room.Store(100)
		w := newWorld(t, func(c *replica.Config) {
			smallSnapshots(c)
			c.SnapshotBytes, c.SnapshotInterval, c.SnapshotMinBytes = 25_000, time.Hour, 1000
			c.Owner.LogRoom = func() float64 { return float64(room.Load()) / 100 }
		})
		a := w.start("a")
		w.waitOwner(a, time.Second)
		w.fill(a, 2000)
		w.waitSnapshot(a) // the first one waits for no interval
		w.fill(a, 18_000)
		time.Sleep(time.Minute)
		require.Len(t, w.refs(), 1)
		room.Store(25)
		w.waitSnapshot(a)
		time.Sleep(time.Second)
		first, last := w.store.Indexes()
		require.Greater(t, first, uint64(1), "trimmed")
		room.Store(0)
		time.Sleep(time.Minute)
		first, _ = w.store.Indexes()
		require.Greater(t, first, last-2, "nothing but marks is left")
		refs := w.refs()
		time.Sleep(time.Hour / 2)
		require.Equal(t, refs, w.refs())
		w.stop(a)
	})
}

// TestReplica_WaitsForASlotOfSnapshots: other replicas' snapshots delay a snapshot, and no command.
func TestReplica_WaitsForASlotOfSnapshots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slots := semaphore.NewWeighted(1)
		require.NoError(t, slots.Acquire(t.Context(), 1))
		w := newWorld(t, func(c *replica.Config) {
			smallSnapshots(c)
			c.SnapshotSlots = slots
		})
		a := w.start("a")
		w.waitOwner(a, time.Second)
		w.fill(a, 12_000)
		time.Sleep(time.Minute)
		require.Empty(t, w.refs())
		w.propose(a)
		slots.Release(1)
		w.waitSnapshot(a)
		w.stop(a)
		require.True(t, slots.TryAcquire(1), "the slot is free again")
	})
}
