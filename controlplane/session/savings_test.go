package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/api"
)

// TestZoneWriters_LendSavings: unused PUTs reach the owner with reports, and come back as a limit. A loan is renewed as it is
// spent, and a new owner lends nothing of the savings before.
func TestZoneWriters_LendSavings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.withZoneWriters()
		first := w.start("a")
		w.waitFor("ownership", func() bool { return first.Owner() != nil })
		second := w.start("b")
		a := w.writing("a", 1)
		report := func(unused float64, spent uint64, wanted uint32) {
			a.load.Store(&api.Load{
				ProduceBytesPerSecond: mib, TakesBatches: true, PutBudget: 4, PutsUnused: unused, PutsBySavings: spent, PutsWanted: wanted,
			})
			time.Sleep(3 * time.Second)
		}
		const counted = 150 * time.Second // until 600 unused tokens count, at 4 a second
		report(100, 0, 0)
		report(700, 0, 0)
		time.Sleep(counted)
		require.Zero(t, a.savingsLimit())
		report(700, 0, 5)
		require.EqualValues(t, 5, a.savingsLimit())
		report(700, 5, 5)
		require.EqualValues(t, 10, a.savingsLimit())
		w.stop(first)
		time.Sleep(20 * time.Second)
		report(700, 7, 5)
		require.LessOrEqual(t, a.savingsLimit(), uint64(7), "no credit")
		report(1300, 7, 5)
		time.Sleep(counted)
		require.EqualValues(t, 12, a.savingsLimit())
		a.leave()
		w.stop(second)
	})
}
