package session_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/controlplane/client"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/metalog/memlog"
)

// TestSession_LateCommit: a commit that has a time does not take effect after it, whatever made it late; and what the agent
// is told of it is true.
func TestSession_LateCommit(t *testing.T) {
	const life = 700 * time.Millisecond
	late := func(what string, delay func(w *world, n *node)) {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				n := w.start("r1")
				tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
				a := w.agent()
				a.opened()
				time.Sleep(time.Minute) // what the agent knows of the owner's clock is of this stream's later stamps
				delay(w, n)
				sub := id.Submission{Session: a.ID(), N: 1}
				_, err := a.Commit(t.Context(), encode(sub, false, plain(tp), plain(tp)), time.Now().Add(life))
				require.ErrorIs(t, err, client.ErrLate)
				w.slowConnections(0)
				time.Sleep(10 * time.Second) // what was being sent slowly has come, and later stamps
				result, err := a.Commit(t.Context(), encode(sub, false, plain(tp)), time.Now().Add(life))
				require.NoError(t, err)
				require.Equal(t, commit.Settled, result.Status)
				require.Equal(t, int64(1), a.subscribe(tp).HighWatermark, "nothing of the late one")
				_, err = a.Commit(t.Context(), encode(sub, false, plain(tp)), time.Now().Add(-life))
				require.NoError(t, err, "an earlier attempt took effect in time")
				a.leave()
				w.stop(n)
			})
		})
	}
	late("long on its way", func(w *world, _ *node) { w.slowConnections(time.Second) })
	late("its stream was lost", func(w *world, _ *node) { w.loseConnections() })

	t.Run("the answer was lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			n := w.start("r1")
			tp := id.TopicPartition{Topic: w.topic(n, "t", 1)}
			a := w.agent()
			a.opened()
			n.net.SetFaults(func(op memlog.Op) memlog.Fault { // what was handed to the log in time takes long there
				if op.Kind == memlog.OpAppend {
					return memlog.LoseRequest
				}
				return memlog.Pass
			})
			time.AfterFunc(life/2, w.loseConnections)
			time.AfterFunc(2*life, func() { n.net.SetFaults(nil) })
			result, err := a.Commit(t.Context(), encode(id.Submission{Session: a.ID(), N: 1}, false, plain(tp)), time.Now().Add(life))
			require.NoError(t, err)
			require.Equal(t, commit.Settled, result.Status)
			require.Equal(t, int64(1), a.subscribe(tp).HighWatermark)
			a.leave()
			w.stop(n)
		})
	})
}
