package session_test

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

func TestSession_SlowAgentIsCutAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.limits = session.Limits{OutboxBytes: 1 << 20}
		n := w.start("r1")
		topic := w.topic(n, "t", 1)
		slow, quick := w.agent(), w.agent()
		slow.opened()
		quick.opened()
		stall := make(chan struct{})
		slow.read(func() { slow.stall = stall })

		// Far more than windows and outbox hold; the quick agent is not held up.
		value := strings.Repeat("v", 30_000)
		for range 600 {
			_, _, err := n.Owner().Propose(t.Context(), &metadata.SetConfigs{
				Resource: metadata.ConfigTopic, Topic: topic, Set: map[string]string{"k": value},
			})
			require.NoError(t, err)
			synctest.Wait() // so that the quick agent has taken it
		}
		_, err := quick.Fresh(t.Context())
		require.NoError(t, err)
		slow.read(func() { slow.stall = nil })
		close(stall)
		w.waitFor("another welcome", func() (again bool) {
			slow.read(func() { again = slow.welcomes > 1 })
			return again
		})
		_, err = slow.Fresh(t.Context())
		require.NoError(t, err)
		slow.read(func() {
			require.Equal(t, value, slow.topics["t"].Configs["k"])
			require.Zero(t, slow.closed, "the session goes on")
		})
		quick.read(func() { require.Equal(t, 1, quick.welcomes) })
		slow.leave()
		quick.leave()
		w.stop(n)
	})
}

// The owner is cut off from the log while commits are under way: its appends have an unknown outcome. Another takes
// over, and every submission is answered once, with an offset of its own.
func TestSession_OwnerCutOffMidCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		other := w.start("r2")
		a, b := w.agent(), w.agent()
		a.opened()
		b.opened()
		b.subscribe(tp)
		var mu sync.Mutex
		bases := map[int64]int{}
		var committing sync.WaitGroup
		commitOne := func() {
			committing.Go(func() {
				result, err := a.submit(plain(tp))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				bases[result.Sections[0].Spans[0].Base]++
			})
		}
		for range 10 {
			commitOne()
		}
		synctest.Wait()
		n.net.CutOff()
		for range 10 {
			commitOne()
		}
		start := time.Now()
		committing.Wait()
		require.Less(t, time.Since(start), 8*time.Second)
		require.Len(t, bases, 20)
		require.NotNil(t, other.Owner())
		a.read(func() { require.Zero(t, a.closed) })

		// The reader asks the new owner; what the old one still says is never taken for fresh.
		b.subscribe(tp)
		_, err := b.Fresh(t.Context())
		require.NoError(t, err)
		b.read(func() { require.Equal(t, int64(20), b.marks[tp]) })
		a.leave()
		b.leave()
		w.stop(other)
		w.stop(n)
	})
}

func TestSession_ForwardsSurviveAnOwnerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		w.topic(n, "t", 1)
		other := w.start("r2")
		a := w.agent()
		a.opened()
		var forwarding sync.WaitGroup
		for i := range 20 {
			forwarding.Go(func() {
				out, err := a.createTopic("topic-" + string(rune('a'+i)))
				if err != nil {
					t.Error(err)
					return
				}
				// 36 is TOPIC_ALREADY_EXISTS: it took effect, and the answer was lost with the owner.
				require.Contains(t, []int16{0, 36}, out)
			})
		}
		w.stop(n)
		forwarding.Wait()
		_, err := a.Fresh(t.Context())
		require.NoError(t, err)
		a.read(func() { require.Len(t, a.topics, 21) })
		a.leave()
		w.stop(other)
	})
}

// The network loses a connection without a sign: the agent notices within seconds, before its session is closed, and
// what waits for an answer gets it on a new connection.
func TestSession_LostConnectionHeals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n := w.start("r1")
		tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
		a := w.agent()
		a.opened()
		_, err := a.submit(plain(tp))
		require.NoError(t, err)
		w.loseConnections()
		start := time.Now()
		result, err := a.submit(plain(tp))
		require.NoError(t, err)
		require.Equal(t, int64(1), result.Sections[0].Spans[0].Base)
		require.Less(t, time.Since(start), 5*time.Second)
		a.read(func() { require.Zero(t, a.closed); require.Equal(t, 2, a.welcomes) })
		a.leave()
		w.stop(n)
	})
}
