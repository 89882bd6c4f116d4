package replica_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/freshet-io/freshet/controlplane/replica"
	"github.com/freshet-io/freshet/metadata/metalog"
)

// endlessLog is a log whose ownership, if there is any, may be under no lease.
type endlessLog struct {
	metalog.Log
	is *atomic.Bool
}

var errEndless = errors.New("remove the key")

func (l endlessLog) Status(ctx context.Context) (metalog.Status, error) {
	st, err := l.Log.Status(ctx)
	if st.Owned && l.is.Load() {
		st.Endless = errEndless
	}
	return st, err
}

// Ownership that would stand for ever is told, by the log and to who asks for readiness, until it has gone.
func TestReplica_SaysThatOwnershipIsEndless(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var endless atomic.Bool
		core, logged := observer.New(zap.WarnLevel)
		w := newWorld(t, func(c *replica.Config) { c.Log, c.Logger = endlessLog{c.Log, &endless}, zap.New(core) })
		a := w.start("a")
		w.waitOwner(a, time.Second)
		b := w.start("b")
		located := func() bool {
			_, ok := b.Located()
			return ok
		}
		w.waitFor("the owner to be seen", time.Second, located)
		require.NoError(t, b.Fault())
		require.Zero(t, logged.Len())

		endless.Store(true)
		w.waitFor("the fault", 10*time.Second, func() bool { return b.Fault() != nil && !located() })
		require.ErrorIs(t, b.Fault(), errEndless)
		w.propose(a)
		time.Sleep(time.Minute)
		lines := logged.FilterMessage("replica makes no progress").All()
		require.Greater(t, len(lines), 10, "again and again")
		require.Equal(t, errEndless.Error(), lines[0].ContextMap()["error"])

		w.stop(a)
		w.waitOwner(b, 10*time.Second)
		require.True(t, located())
		require.NoError(t, b.Fault())
		require.Equal(t, wantNames(1), w.names(b))
		w.stop(b)
		require.NoError(t, b.Fault())
	})
}

// A former self is taken over however its key stands.
func TestReplica_TakesOverEndlessOwnership(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var endless atomic.Bool
		w := newWorld(t, func(c *replica.Config) { c.Log, c.TakeOver = endlessLog{c.Log, &endless}, true })
		dead := w.start("a")
		w.waitOwner(dead, time.Second)
		dead.net.CutOff()
		endless.Store(true)
		again := w.start("a")
		w.waitOwner(again, 200*time.Millisecond)
		time.Sleep(10 * time.Second)
		w.stop(again)
		dead.cancel()
		dead.net.SetFaults(nil)
		require.NoError(t, <-dead.ended)
	})
}
