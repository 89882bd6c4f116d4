package zonewriter

import (
	"bufio"
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestLink_ResultsThatDoNotFit: a writer that answers a frame with another number of results than it had batches has its
// stream given up, and the frame's batches still get a result: else no turn would ever end.
func TestLink_ResultsThatDoNotFit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mine, its := net.Pipe()
		l := newLink(other, mine, bufio.NewReader(mine), DefaultSilence)
		ended := make(chan error, 1)
		go func() { ended <- l.run() }()
		go func() { _, _ = io.Copy(io.Discard, its) }()
		p := writer.NewProduce(2)
		l.add(t.Context(), []writer.Batch{batch(0, -1, 0, 1), batch(1, -1, 0, 1)}, p)
		_, err := its.Write(head{kindResults, 1, 1}.append(nil))
		require.NoError(t, err)
		require.ErrorIs(t, <-ended, errProtocol)
		for _, r := range settledAs(t, p) {
			require.ErrorIs(t, r.Err, writer.ErrUnknownOutcome)
		}
		_ = its.Close()
	})
}

// TestRoute_LeavesAWriterThatSettlesNothing: a writer that lives and is cut off from the control plane never learns what
// became of its commits. Once it is no agent of the zone any more nothing of it will be committed, and it is waited for a
// while only; before that, until all clients have been answered.
func TestRoute_LeavesAWriterThatSettlesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		member bool
		bound  time.Duration
	}{"gone": {false, 2 * DefaultSilence}, "there": {true, leaveTimeout + 2*DefaultSilence}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.route.cfg.Member = func(id.Session) bool { return c.member }
				w.tell(other)
				p := w.add(batch(0, -1, 0, 1))
				stuck := w.one(w.its)
				w.tell(me)
				began := time.Now()
				next := w.add(batch(0, -1, 1, 1))
				require.Less(t, time.Since(began), c.bound)
				require.ErrorIs(t, settledAs(t, p)[0].Err, writer.ErrUnknownOutcome)
				w.one(w.mine).settle(accepted(0))
				settledAs(t, next)
				stuck.settle(writer.Failed(writer.ErrSessionClosed))
			})
		})
	}
}

// TestRoute_LeavesAWriterThatTakesNothing: nor does a client that waits for a full writer hold such a turn up for longer.
func TestRoute_LeavesAWriterThatTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.route.cfg.Member = func(id.Session) bool { return false }

		w.tell(other)
		full := make(chan struct{})
		w.its.mu.Lock()
		w.its.closed = full
		w.its.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		waiting := make(chan *writer.Produce, 20)
		go func() {
			defer close(waiting)
			for i := range cap(waiting) {
				waiting <- w.route.Add(ctx, []writer.Batch{batch(0, -1, int32(i), 100<<10)})
			}
		}()
		synctest.Wait()
		require.Less(t, len(waiting), 10, "the writer is full")
		began := time.Now()
		w.tell(me)
		for range waiting { // the last ones are this agent's own
		}
		require.Less(t, time.Since(began), 2*DefaultSilence)
		require.NotEmpty(t, w.mine.take())
		require.Empty(t, w.its.take())
	})
}
