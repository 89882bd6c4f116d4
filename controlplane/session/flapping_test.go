package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/id"
)

// flap cuts an agent off for long enough to be hidden, and lets it come back.
func (n *network) flap() {
	n.cut(true)
	time.Sleep(2 * time.Second)
	n.cut(false)
}

// TestFlapping_StaysOutForLonger: an agent that was cut off twice within minutes is shown again after it has stayed for a
// while, each time for longer; a break starts that anew, and minutes of calm are forgiven. Its session lives on.
func TestFlapping_StaysOutForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		var link network
		a, b := w.join(), w.join(link.configure)
		shown := func() bool {
			sessions, _ := w.shown(n)
			return len(sessions) == 2
		}
		// until gives how long it takes until b is shown, in steps of a quarter of a second.
		until := func() (took time.Duration) {
			for began := time.Now(); !shown(); took = time.Since(began) {
				time.Sleep(250 * time.Millisecond)
			}
			return took
		}
		link.flap()
		require.LessOrEqual(t, until(), time.Second, "the first time")
		for _, stay := range []time.Duration{5, 10, 20, 40, 80, 120, 120} {
			time.Sleep(time.Second)
			link.flap()
			took := until()
			require.GreaterOrEqual(t, took, stay*time.Second)
			require.LessOrEqual(t, took, (stay+1)*time.Second)
		}
		link.flap()
		time.Sleep(100 * time.Second)
		require.False(t, shown())
		link.cut(false) // back at once
		time.Sleep(100 * time.Second)
		require.False(t, shown(), "it has not stayed for two minutes")
		require.LessOrEqual(t, until(), 21*time.Second)

		time.Sleep(11 * time.Minute)
		link.flap()
		require.LessOrEqual(t, until(), time.Second, "long ago")
		b.read(func() { require.Zero(t, b.closed) })
		w.end(n, a, b)
	})
}

// TestFlapping_MembershipRests: whatever an agent does, it changes the membership a few times in ten minutes. Meanwhile
// others join at once, and it leaves in order.
func TestFlapping_MembershipRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		var link network
		a, b := w.join(), w.join(link.configure)
		_, before := w.shown(n)
		for range 150 {
			link.flap()
			time.Sleep(2 * time.Second)
		}
		_, after := w.shown(n)
		require.LessOrEqual(t, after-before, uint64(2*2), "hidden and shown, before every four seconds")

		c := w.join()
		sessions, _ := w.shown(n)
		require.Equal(t, []id.Session{a.ID(), c.ID()}, sessions)
		time.Sleep(time.Second)
		require.NoError(t, b.Drain(t.Context()))
		require.NoError(t, b.Goodbye(t.Context()))
		synctest.Wait()
		require.True(t, w.closedSession(n, b.ID()))
		w.end(n, a, b, c)
	})
}

// TestFlapping_OnlyOneOfItsZone: clients of a zone are not sent to another one because its only agent comes and goes.
func TestFlapping_OnlyOneOfItsZone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		in := func(zone string) func(*client.Config) { return func(c *client.Config) { c.Zone = zone } }
		var link, second network
		a, b := w.join(in("a")), w.join(in("b"), link.configure)
		for range 5 {
			link.flap()
			time.Sleep(time.Second)
			sessions, _ := w.shown(n)
			require.Equal(t, []id.Session{a.ID(), b.ID()}, sessions)
		}
		c := w.join(in("b"), second.configure)
		link.flap()
		time.Sleep(time.Second)
		sessions, _ := w.shown(n)
		require.Equal(t, []id.Session{a.ID(), c.ID()}, sessions, "there is another")
		second.cut(true)
		time.Sleep(2 * time.Second)
		sessions, _ = w.shown(n)
		require.Equal(t, []id.Session{a.ID(), b.ID()}, sessions, "there is no other any more")
		w.end(n, a, b, c)
	})
}
