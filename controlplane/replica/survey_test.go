package replica_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/replica"
)

// clock returns a clock that differs from the bubble's.
func clock(name string, ahead time.Duration) replica.Clock {
	return replica.Clock{Name: name, Now: func(context.Context) (time.Time, error) { return time.Now().Add(ahead), nil }}
}

// wholeSeconds returns a clock that shows whole seconds, as the Date of HTTP.
func wholeSeconds(c replica.Clock) replica.Clock {
	return replica.Clock{Name: c.Name, Now: func(ctx context.Context) (time.Time, error) {
		at, err := c.Now(ctx)
		return at.Truncate(time.Second), err
	}}
}

// silentClock returns a clock that answers only when its caller gives up.
func silentClock(name string) replica.Clock {
	return replica.Clock{Name: name, Now: func(ctx context.Context) (time.Time, error) {
		<-ctx.Done()
		return time.Time{}, errors.New("no answer")
	}}
}

func withClocks(clocks ...replica.Clock) func(*replica.Config) {
	return func(c *replica.Config) { c.Clocks = func() []replica.Clock { return clocks } }
}

// The store's clock goes off and the owner dies. A replica takes over if a majority of at least three clocks agrees with its own.
func TestReplica_MajorityOfClocksDecidesTakeover(t *testing.T) {
	const off = 45 * time.Second
	for name, test := range map[string]struct {
		store, machine time.Duration // of the store's clock and of the clock of the machine that would take over
		others         []replica.Clock
		takesOver      bool
		says           string
	}{
		"the store's is ahead": {
			store: off, others: []replica.Clock{clock("etcd's clock", 0)}, takesOver: true,
			says: "the object store's clock is 45s ahead of this machine's clock and etcd's clock",
		},
		"the store's is behind": {
			store: -off, others: []replica.Clock{clock("etcd's clock", 0), silentClock("r3's clock")}, takesOver: true,
			says: "the object store's clock is 45s behind this machine's clock and etcd's clock",
		},
		"the store's and a replica's are off": {
			store: off, others: []replica.Clock{clock("etcd's clock", 0), clock("r3's clock", -time.Hour), clock("r4's clock", 2*time.Second)}, takesOver: true,
			says: "the object store's clock is 45s ahead of, r3's clock is 1h0m0s behind this machine's clock and etcd's clock and r4's clock",
		},
		"this machine's is ahead": {
			machine: off, others: []replica.Clock{clock("etcd's clock", 0), clock("r3's clock", 0)},
			says: "this machine's clock is 45s ahead of the object store's clock and etcd's clock and r3's clock",
		},
		"this machine's is behind": {
			machine: -off, others: []replica.Clock{clock("etcd's clock", 0)},
			says: "this machine's clock is 45s behind the object store's clock and etcd's clock",
		},
		"two clocks": {
			store: off, says: "no majority of at least 3 clocks agrees: this machine's clock is 45s behind the object store's clock",
		},
		"two that answer": {
			store: off, others: []replica.Clock{silentClock("etcd's clock"), silentClock("r3's clock")},
			says: "no majority of at least 3 clocks agrees: this machine's clock is 45s behind the object store's clock",
		},
		"half of four": {
			store: off, others: []replica.Clock{wholeSeconds(clock("etcd's clock", 0)), clock("r3's clock", off)},
			says: "no majority of at least 3 clocks agrees: this machine's clock is 45s behind the object store's clock and ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil)
				a := w.start("a")
				w.waitOwner(a, time.Second)
				w.propose(a)
				require.Empty(t, a.ClockWarning())

				w.bucket.skew.Store(int64(test.store))
				core, logged := observer.New(zap.WarnLevel)
				w.adjust = func(c *replica.Config) {
					withClocks(test.others...)(c)
					c.Logger = zap.New(core)
				}
				w.before = func(r *replica.Replica) { r.SetWall(func() time.Time { return time.Now().Add(test.machine) }) }
				b := w.start("b")
				time.Sleep(time.Minute)
				require.Contains(t, b.ClockWarning(), test.says, "without a takeover")
				if err := b.MayOwn(t.Context()); test.takesOver {
					require.NoError(t, err)
				} else {
					require.ErrorContains(t, err, test.says)
				}
				w.stop(a)
				if test.takesOver {
					w.waitOwner(b, 5*time.Second)
					require.NoError(t, b.Fault())
					w.propose(b)
					require.Equal(t, wantNames(2), w.names(b))
				} else {
					logged.TakeAll()
					time.Sleep(10 * time.Minute)
					require.LessOrEqual(t, logged.FilterMessage("replica makes no progress").Len(), 1)
					require.Nil(t, b.Owner())
					require.ErrorContains(t, b.Fault(), test.says)
				}
				require.Contains(t, b.ClockWarning(), test.says)
				w.bucket.skew.Store(0)
				if test.machine == 0 {
					w.waitOwner(b, time.Minute)
					w.waitFor("the end of the warning", time.Minute, func() bool { return b.ClockWarning() == "" })
				}
				w.stop(b)
			})
		})
	}
}

// An owner that a majority of clocks confirmed goes on from the last entry's time, and lets nothing expire.
func TestReplica_MajorityOfClocksDoesNotMoveCommandTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withClocks(clock("etcd's clock", 0)))
		a := w.start("a")
		w.waitOwner(a, time.Second)
		w.propose(a)
		w.stop(a)
		last := time.Now()
		time.Sleep(time.Hour)

		w.bucket.skew.Store(int64(45 * time.Second))
		b := w.start("b")
		w.waitOwner(b, 5*time.Second)
		took := time.Now()
		w.propose(b)
		before := w.now(b)
		require.InDelta(t, last.UnixMilli(), before, 5000, "the hour without an owner does not count")
		time.Sleep(20 * time.Minute)
		require.Equal(t, before, w.now(b), "no Tick")
		w.propose(b)
		require.InDelta(t, last.Add(time.Since(took)).UnixMilli(), w.now(b), 5000)

		w.bucket.skew.Store(0)
		agreed := w.now(b)
		time.Sleep(10 * time.Minute)
		require.InDelta(t, agreed+15*60_000, w.now(b), 60_000, "command time catches up, and does not step")
		w.waitFor("a Tick by this machine's clock", 2*time.Hour, func() bool { return w.now(b) > time.Now().Add(-time.Minute).UnixMilli() })
		w.stop(b)
	})
}

// A new virtual cluster has no entry whose time bounds that of the first one, so it waits for the store's clock.
func TestReplica_MajorityOfClocksStartsNoVirtualCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withClocks(clock("etcd's clock", 0), clock("r2's clock", 0)))
		w.bucket.skew.Store(int64(45 * time.Second))
		a := w.start("a")
		time.Sleep(time.Minute)
		require.Nil(t, a.Owner())
		require.ErrorContains(t, a.Fault(), "the object store's clock is 45s ahead of this machine's clock")
		w.bucket.skew.Store(0)
		w.waitOwner(a, time.Minute)
		w.stop(a)
	})
}

// While the store's clock and this machine's agree, no other clock is asked.
func TestReplica_AsksNoOtherClockInVain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(c *replica.Config) {
			c.Clocks = func() []replica.Clock { panic("a clock is asked") }
		})
		a := w.start("a")
		w.waitOwner(a, time.Second)
		b := w.start("b")
		time.Sleep(5 * time.Minute)
		w.stop(a)
		w.waitOwner(b, 5*time.Second)
		w.stop(b)
	})
}
