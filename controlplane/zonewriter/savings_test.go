package zonewriter

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/putbudget"
	"github.com/freshet-io/freshet/metadata/id"
)

const budget = 4.0

// idle lets seconds pass in which an agent uses nothing of the whole budget.
func (c *cluster) idle(session id.Session, seconds int) {
	for range seconds {
		c.change(session, func(a *fake) { a.unused += budget })
		c.pass(1)
	}
	c.pass(int(planInterval.Seconds()) + 2) // rounds rest
}

func (c *cluster) saved(zone string) float64 {
	return testutil.ToFloat64(c.plan.metrics.savings.WithLabelValues(zone))
}

func TestSavings_AreLentToTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		a := c.open(fake{zone: "a", takes: true, budget: budget})
		c.pass(2)
		c.idle(a, 300)
		require.InDelta(t, 300*budget, c.saved("a"), 3*budget)
		require.Zero(t, c.last(a).limit, "nothing was wanted")

		c.change(a, func(a *fake) { a.wanted = 7 })
		saved := c.saved("a")
		c.pass(3)
		require.Equal(t, told{a, 1, 7}, c.last(a))
		require.InDelta(t, saved-7, c.saved("a"), 0, "the loan is renewed only as it is spent")
		c.change(a, func(a *fake) { a.spent = 5 })
		c.pass(2)
		require.Equal(t, told{a, 1, 12}, c.last(a))

		c.connect(a)
		c.pass(2)
		require.InDelta(t, saved-12-7, c.saved("a"), 0, "the rest of the loan before is lost")
		require.Equal(t, told{a, 1, 12}, c.last(a))
		c.stop()
		require.Zero(t, testutil.CollectAndCount(c.plan.metrics.savings))
	})
}

// TestSavings_GrowNoFasterThanTheBudget: a report of more unused tokens than the budget gave does not count at once.
func TestSavings_GrowNoFasterThanTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		a := c.open(fake{zone: "a", takes: true, budget: budget})
		c.pass(2)
		c.change(a, func(a *fake) { a.unused = 1e6 })
		c.pass(60)
		require.InDelta(t, 60*budget, c.saved("a"), 3*budget)
		c.stop()
	})
}

func TestSavings_NewOwnerBeginsWithNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		a := c.open(fake{zone: "a", takes: true, budget: budget})
		c.pass(2)
		c.idle(a, 60)
		c.stop()
		c.own()
		c.connect(a)
		c.pass(5)
		require.Zero(t, c.saved("a"))
		c.idle(a, 10)
		require.InDelta(t, 10*budget, c.saved("a"), 2*budget)
		c.stop()
	})
}

// An agent that hands over has tokens that no writer uses: its share is part of the writers' shares.
func TestSavings_CountWritersAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		a := c.open(fake{zone: "a", takes: true, budget: budget})
		b := c.open(fake{zone: "a", takes: true, budget: budget})
		c.open(fake{zone: "a"}) // knows no savings; it writes apart
		c.pass(5)
		hands := a
		if c.last(a).writer == a {
			hands = b
		}
		c.idle(hands, 60)
		require.Zero(t, c.saved("a"))
		c.stop()
	})
}

func TestSavings_OutliveAgents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nil)
		a := c.open(fake{zone: "a", takes: true, budget: budget})
		c.pass(2)
		c.idle(a, 60)
		c.close(a)
		c.pass(10)
		a = c.open(fake{zone: "a", takes: true, budget: budget, wanted: 2})
		c.pass(5)
		require.EqualValues(t, 2, c.last(a).limit)
		require.InDelta(t, 60*budget-2, c.saved("a"), 3*budget)
		c.stop()
	})
}

func TestSavings_AreNotLentWhileTheOwnerSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		slow.Store(true)
		c := newCluster(t, slow.Load)
		a := c.open(fake{zone: "a", takes: true, budget: budget, wanted: 3})
		c.pass(2)
		c.idle(a, 120)
		require.Zero(t, c.last(a).limit)
		slow.Store(false)
		c.pass(2)
		require.EqualValues(t, 3, c.last(a).limit)
		c.stop()
	})
}

func TestSavings_OfZonesWithoutAgentsAreBounded(t *testing.T) {
	s := savings{}
	for i := range maxEmpty + 1 {
		s.of(fmt.Sprint(i))
	}
	s.forget(map[id.Session]*member{1: {zone: "3"}})
	require.Equal(t, savings{"3": &putbudget.Savings{}}, s)
}
