package session_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/controlplane/owner"
	"github.com/freshet-io/freshet/controlplane/session"
)

// repeatsHandler answers each request with its body, and lets the agent repeat the answer for 10 s.
type repeatsHandler struct {
	mu      sync.Mutex
	asked   int
	recall  func()
	between func() // called before an answer, after Repeat
}

func (l *repeatsHandler) Start(ctx context.Context, f *api.Forward, reply func([]byte, error)) {
	l.mu.Lock()
	l.asked++
	l.recall = session.AnswerOf(ctx).Repeat(10 * time.Second)
	between := l.between
	l.mu.Unlock()
	if between != nil {
		between()
	}
	reply(f.Body, nil)
}

func (l *repeatsHandler) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// repeatsWorld is a world of replicas of which the first is the owner, and an agent.
func repeatsWorld(t *testing.T, replicas ...string) (*world, []*node, *agent, *repeatsHandler) {
	t.Helper()
	w, l := newWorld(t), &repeatsHandler{}
	w.forwards = func(*owner.Owner, session.Spawn) session.Forwards { return l }
	var nodes []*node
	for _, name := range replicas {
		nodes = append(nodes, w.start(name))
		w.waitFor("ownership", func() bool { return nodes[0].Owner() != nil })
	}
	a := w.agent()
	a.opened()
	return w, nodes, a, l
}

func (a *agent) beat(t *testing.T, principal, body string) {
	t.Helper()
	got, err := a.Forward(t.Context(), client.Forward{Key: int16(kmsg.Heartbeat), Principal: principal, Body: []byte(body)})
	require.NoError(t, err)
	require.Equal(t, body, string(got))
}

// TestRepeats: an agent repeats the owner's answer to a heartbeat for the allowed time, and only to equal requests of the same principal.
func TestRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n, a, l := repeatsWorld(t, "r1")
		for range 4 {
			a.beat(t, "p", "m1")
			time.Sleep(3 * time.Second)
		}
		require.Equal(t, 1, l.count())
		a.beat(t, "p", "m1")
		require.Equal(t, 2, l.count(), "12 s after the first")
		a.beat(t, "p", "m2")
		a.beat(t, "q", "m1")
		require.Equal(t, 4, l.count())
		_, err := a.Forward(t.Context(), client.Forward{Key: int16(kmsg.LeaveGroup), Principal: "p", Body: []byte("m1")})
		require.NoError(t, err)
		require.Equal(t, 5, l.count(), "another API")
		a.leave()
		w.stop(n[0])
	})
}

// TestRepeats_AskedTogether: if the repeated answer has expired, an idle agent forwards the next heartbeat at a multiple of 100 ms. After a recall, it
// forwards the heartbeat at once, since a rebalance may have begun. An agent whose clients write always does.
func TestRepeats_AskedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n, a, l := repeatsWorld(t, "r1")
		var written atomic.Uint64
		busy := w.agent(func(c *client.Config) {
			c.Load = func() *api.Load { return &api.Load{ProduceBytesPerSecond: float64(written.Load())} }
		})
		busy.opened()
		written.Store(1 << 20)
		time.Sleep(15 * time.Second) // sleeps: fake time
		time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(1030 * time.Millisecond)))
		beat := func(who *agent) (took time.Duration) {
			began := time.Now()
			who.beat(t, "p", "m")
			return time.Since(began)
		}
		for _, who := range []*agent{a, busy} {
			require.Zero(t, beat(who), "the first")
		}
		time.Sleep(12 * time.Second)
		require.Zero(t, beat(busy))
		require.Equal(t, 70*time.Millisecond, beat(a))
		require.Equal(t, 4, l.count())
		time.Sleep(12*time.Second - 40*time.Millisecond)
		l.recall()
		synctest.Wait()
		require.Zero(t, beat(a))
		require.Equal(t, 5, l.count())
		for _, one := range []*agent{a, busy} {
			one.leave()
		}
		w.stop(n[0])
	})
}

// TestRepeats_Recalled: after a recall, no earlier answer is repeated, not even one that was still in flight.
func TestRepeats_Recalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, n, a, l := repeatsWorld(t, "r1")
		other := w.agent()
		other.opened()
		a.beat(t, "p", "m1")
		other.beat(t, "p", "m2")
		l.recall()
		synctest.Wait()
		a.beat(t, "p", "m1")
		other.beat(t, "p", "m2")
		require.Equal(t, 4, l.count(), "all agents were told")
		l.between = func() { l.recall() }
		a.beat(t, "p", "m3")
		l.between = nil
		a.beat(t, "p", "m3")
		require.Equal(t, 6, l.count())
		a.beat(t, "p", "m3")
		require.Equal(t, 6, l.count())
		for _, one := range []*agent{a, other} {
			one.leave()
		}
		w.stop(n[0])
	})
}

// TestRepeats_EndWithTheStream: an agent drops repeated answers with its stream, since the next owner cannot recall them.
func TestRepeats_EndWithTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, nodes, a, l := repeatsWorld(t, "r1", "r2")
		a.beat(t, "p", "m1")
		w.stop(nodes[0])
		w.waitFor("the next owner", func() bool { return nodes[1].Owner() != nil && a.Connected() })
		a.beat(t, "p", "m1")
		require.Equal(t, 2, l.count())
		a.leave()
		w.stop(nodes[1])
	})
}
