package replica_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// lateStatus is a log whose answers to Status come late.
type lateStatus struct {
	metalog.Log
	then atomic.Pointer[func()]
}

func (l *lateStatus) Status(ctx context.Context) (metalog.Status, error) {
	st, err := l.Log.Status(ctx)
	if then := l.then.Swap(nil); then != nil {
		(*then)()
	}
	return st, err
}

// TestReplica_HandOverDuringARound: the owner hands over while a follower is in a round, between its Status and its pause. The follower claims the log
// at once, though its next round is up to 3 s away.
func TestReplica_HandOverDuringARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := new(lateStatus)
		w := newWorld(t, func(c *replica.Config) {
			if c.Replica == "b" {
				late.Log = c.Log
				c.Log = late
			}
		})
		a := w.start("a")
		w.waitOwner(a, time.Second)
		b := w.start("b")
		time.Sleep(30 * time.Second) // sleeps: until rounds are rare
		gone := make(chan time.Time, 1)
		then := func() {
			a.cancel()
			require.NoError(t, <-a.ended)
			time.Sleep(20 * time.Millisecond) // sleeps: the follower's watch shows that there is no owner
			gone <- time.Now()
		}
		late.then.Store(&then)
		began := <-gone
		w.waitOwner(b, time.Until(began.Add(500*time.Millisecond)))
		w.stop(b)
	})
}
