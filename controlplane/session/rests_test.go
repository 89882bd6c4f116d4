package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestSession_IdleAgentsOutliveTheOwnersHost: if the owner's host vanishes without a sign, an idle agent notices at its next probe. Its session stays, though
// the next owner hides it until then if another agent has come.
func TestSession_IdleAgentsOutliveTheOwnersHost(t *testing.T) {
	for _, early := range []time.Duration{0, 3 * time.Second, 6 * time.Second, 9 * time.Second, 12 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			first := w.start("r1")
			w.waitFor("ownership", func() bool { return first.Owner() != nil })
			next := w.start("r2")
			a := w.agent()
			a.opened()
			time.Sleep(early)
			b := w.agent()
			b.opened()
			time.Sleep(30*time.Second + 100*time.Millisecond)
			sessions := []id.Session{a.ID(), b.ID()}
			w.loseConnections()
			first.net.Stop()
			w.mu.Lock()
			delete(w.nodes, "r1:7050")
			w.mu.Unlock()
			w.waitFor("the next owner", func() bool { return next.Owner() != nil })
			time.Sleep(40 * time.Second)
			require.Equal(t, sessions, []id.Session{a.ID(), b.ID()}, early)
			_, err := next.Owner().Read(func(s *metadata.State) {
				for info := range s.Sessions() {
					require.False(t, info.Hidden)
				}
			})
			require.NoError(t, err)
			first.net.Release()
			w.mu.Lock()
			w.nodes["r1:7050"] = first
			w.mu.Unlock()
			a.leave()
			b.leave()
			w.stop(first)
			w.stop(next)
		})
	}
}

// TestSession_EndsAfterItsStream: the session of an idle agent that ends without a sign but the end of its stream is closed a session time-out later,
// whether or not another agent is connected.
func TestSession_EndsAfterItsStream(t *testing.T) {
	for others := range 2 {
		synctest.Test(t, func(t *testing.T) {
			w, n := newOwnedWorld(t)
			var rest []*agent
			for range others {
				one := w.agent()
				one.opened()
				rest = append(rest, one)
			}
			a := w.agent()
			a.opened()
			time.Sleep(27 * time.Second)
			open := func() (open int) {
				_, err := n.Owner().Read(func(s *metadata.State) {
					for info := range s.Sessions() {
						if !info.Closed {
							open++
						}
					}
				})
				require.NoError(t, err)
				return open
			}
			require.Equal(t, others+1, open())
			a.leave()
			began := time.Now()
			w.waitFor("the end of the session", func() bool { return open() == others })
			require.InDelta(t, 5, time.Since(began).Seconds(), 1)
			for _, one := range rest {
				one.leave()
			}
			w.stop(n)
		})
	}
}
