package zonewriter

import (
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/writer"
)

// TestLease_EndsBeforeTheStreamIsGivenUp: whatever is lost on the way from one agent to the other, and whoever stands still:
// as soon as the one that hands over may have given the stream up, the other hands nothing of it in for commit.
func TestLease_EndsBeforeTheStreamIsGivenUp(t *testing.T) {
	for name, lose := range map[string]func(c *cut){
		"what is handed over": func(c *cut) { c.in.Store(true) },
		"answers":             func(c *cut) { c.out.Store(true) },
		"all":                 func(c *cut) { c.in.Store(true); c.out.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := &cut{}
				w.receive = func(conn net.Conn) net.Conn { c.Conn = conn; return c }
				w.tell(other)
				p := w.add(batch(0, -1, 0, 1))
				lease := w.one(w.its).batch.Lease
				time.Sleep(time.Minute)
				require.True(t, holds(lease), "while all is well")
				lose(c)
				w.mu.Lock()
				w.unreached = true
				w.mu.Unlock()
				for began := time.Now(); holds(lease); time.Sleep(10 * time.Millisecond) {
					pending(t, p)
					require.Less(t, time.Since(began), DefaultSilence)
				}
				time.Sleep(2 * DefaultSilence)
				require.ErrorIs(t, settledAs(t, p)[0].Err, writer.ErrUnknownOutcome)
				require.False(t, holds(lease))
				p = w.add(batch(0, -1, 1, 1))
				w.one(w.mine).settle(accepted(0))
				settledAs(t, p)
			})
		})
	}
}

// holds tells whether a lease has not ended.
func holds(l writer.Lease) bool { return time.Now().Before(l.Until()) }

// cut is the writer's end of a stream; what comes, or goes, can be lost.
type cut struct {
	net.Conn
	in, out atomic.Bool
}

func (c *cut) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !c.in.Load() {
			return n, err
		}
	}
}

func (c *cut) Write(p []byte) (int, error) {
	if c.out.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

// TestLease_AfterAPause: an agent that stood still finds the lease over when it wakes, though it has not looked at the
// stream yet, and signs of life from before it was given up wait there. Those say which beat was heard, not when they are
// read.
func TestLease_AfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLease(DefaultSilence)
		last := l.beat()
		time.Sleep(DefaultSilence) // the other side has heard nothing for so long, and writes itself
		require.False(t, holds(l))
		l.heard(last)
		l.heard(last + 5) // none that was sent
		require.False(t, holds(l))
		l.heard(l.beat())
		require.True(t, holds(l), "whoever heard this has not given up")
		l.end()
		l.heard(l.beat())
		require.False(t, holds(l))
	})
}
