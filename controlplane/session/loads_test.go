package session_test

import (
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/id"
)

// reporter is an agent's load, counted.
type reporter struct {
	asked atomic.Int64
	load  atomic.Pointer[api.Load]
}

func (r *reporter) report(bytesPerSecond float64) *reporter {
	r.load.Store(&api.Load{ProduceBytesPerSecond: bytesPerSecond, TakesBatches: true})
	return r
}

func (r *reporter) configure(c *client.Config) {
	c.Load = func() *api.Load {
		r.asked.Add(1)
		return r.load.Load()
	}
}

// rates are those that an owner knows, by session.
func (n *node) rates() map[id.Session]float64 {
	table := n.sessions.Loads()
	if table == nil {
		return nil
	}
	all := map[id.Session]float64{}
	for session, a := range table.Recent(time.Now()) {
		all[session] = a.Load.ProduceBytesPerSecond
	}
	return all
}

func TestLoads_AreToldOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("a")
		var r reporter
		a := w.agent(r.report(7).configure)
		quiet := w.agent(new(reporter).configure) // knows no load
		old := w.agent()                          // of before there were any
		a.opened()
		quiet.opened()
		old.opened()
		synctest.Wait()
		require.Equal(t, map[id.Session]float64{a.ID(): 7}, n.rates(), "with the first message of the stream")
		r.report(8)
		before := r.asked.Load()
		time.Sleep(10 * time.Second)
		require.InDelta(t, 10, r.asked.Load()-before, 1)
		require.Equal(t, map[id.Session]float64{a.ID(): 8}, n.rates())
		for _, one := range []*agent{a, quiet, old} {
			one.leave()
		}
		w.stop(n)
		require.Nil(t, n.sessions.Loads())
	})
}

func TestLoads_EndWithTheAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("a")
		draining, leaving, killed := w.agent(new(reporter).report(1).configure), w.agent(new(reporter).report(2).configure), w.agent(new(reporter).report(3).configure)
		for _, one := range []*agent{draining, leaving, killed} {
			one.opened()
		}
		synctest.Wait()
		require.Len(t, n.rates(), 3)
		require.NoError(t, draining.Drain(t.Context()))
		require.NotContains(t, n.rates(), draining.ID())
		time.Sleep(2 * time.Second)
		require.NotContains(t, n.rates(), draining.ID(), "it goes on reporting")
		require.NoError(t, leaving.Goodbye(t.Context()))
		require.Equal(t, map[id.Session]float64{killed.ID(): 3}, n.rates())
		killed.leave()
		w.waitFor("silence", func() bool { return len(n.rates()) == 0 })
		draining.leave()
		leaving.leave()
		w.stop(n)
	})
}

func TestLoads_AreRefusedWhereTheyCannotBe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("a")
		var r reporter
		a := w.agent(r.report(math.NaN()).configure)
		a.opened()
		time.Sleep(3 * time.Second)
		require.Empty(t, n.rates())
		require.True(t, a.Connected(), "nobody's stream ends for it")
		r.report(5)
		time.Sleep(2 * time.Second)
		require.Equal(t, map[id.Session]float64{a.ID(): 5}, n.rates())
		a.leave()
		w.stop(n)
	})
}

func TestLoads_AreKnownToTheNextOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.start("a")
		w.waitFor("ownership", func() bool { return first.Owner() != nil })
		second := w.start("b")
		a := w.agent(new(reporter).report(4).configure)
		a.opened()
		w.stop(first)
		w.waitFor("another owner", func() bool { return second.sessions.Loads() != nil })
		w.waitFor("the report", func() bool { return second.rates()[a.ID()] == 4 })
		a.leave()
		w.stop(second)
	})
}
