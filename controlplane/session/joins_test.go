package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A burst of agents that join costs each stream a few messages. A stamp still comes after the changes before it (I4).
func TestMembership_OfABurstIsSentTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n := newOwnedWorld(t)
		var all []*agent
		for range 40 {
			all = append(all, w.join())
		}
		time.Sleep(time.Second) // the bubble's time
		first, before := all[0], 0
		for i := range 40 {
			all = append(all, w.join())
			_, err := first.Fresh(t.Context())
			require.NoError(t, err)
			if i%10 > 0 {
				continue
			}
			first.read(func() { require.Equal(t, len(all), first.members, "members as of a stamp") })
		}
		time.Sleep(time.Second) // the bubble's time
		first.read(func() { before = first.changes })
		for range 40 {
			all = append(all, w.agent())
		}
		for _, a := range all[80:] {
			a.opened()
		}
		time.Sleep(time.Second) // the bubble's time
		first.read(func() {
			require.Len(t, all, first.members)
			require.LessOrEqual(t, first.changes-before, 3, "memberships of 40 agents that join at once")
		})
		w.end(n, all...)
	})
}
