package zonewriter

import (
	"bufio"
	"io"
	"net"
	"sync/atomic"
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
		l := newLink(other, mine, bufio.NewReader(mine), DefaultSilence, func() {})
		ended := make(chan error, 1)
		go func() { ended <- l.run() }()
		go func() { _, _ = io.Copy(io.Discard, its) }()
		p := writer.NewProduce(2, nil)
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
// became of its commits. Once its session is closed nothing of it will be committed, and it is waited for a moment only;
// before that, for as long as it takes the owner to close it.
func TestRoute_LeavesAWriterThatSettlesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		open  bool
		bound time.Duration
	}{"closed": {false, 2 * time.Second}, "open": {true, leaveTimeout + hurryEvery}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.route.cfg.Open = func(id.Session) bool { return c.open }
				w.tell(other)
				p := w.add(batch(0, -1, 0, 1))
				stuck := w.one(w.its)
				w.tell(me)
				began := time.Now()
				next := w.add(batch(0, -1, 1, 1))
				require.LessOrEqual(t, time.Since(began), c.bound)
				require.ErrorIs(t, settledAs(t, p)[0].Err, writer.ErrUnknownOutcome)
				w.one(w.mine).settle(accepted(0))
				settledAs(t, next)
				stuck.settle(writer.Failed(writer.ErrSessionClosed))
			})
		})
	}
}

// TestRoute_LeavesSequencedBatchesToTheirNumbers: of what a writer that is left has handed in and cannot tell of, only
// batches without sequence numbers are waited for; clients of the others may try again at once. What is told later is
// too late for those, and in time for the first.
func TestRoute_LeavesSequencedBatchesToTheirNumbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		sequenced, plain, both := w.add(batch(0, 7, 0, 1)), w.add(batch(0, -1, 0, 1)), w.add(batch(1, 7, 0, 1), batch(1, -1, 0, 1))
		w.tell(me)
		time.Sleep(w.route.cfg.Patience + lastResults + hurryEvery)
		require.ErrorIs(t, settledAs(t, sequenced)[0].Err, writer.ErrUnknownOutcome)
		pending(t, plain)
		pending(t, both)
		for i, a := range w.its.take() {
			a.settle(accepted(int64(i)))
		}
		require.Equal(t, accepted(1), settledAs(t, plain)[0])
		require.Equal(t, accepted(3), settledAs(t, both)[1])
	})
}

// TestRoute_LeavesAWriterThatTakesNothing: nor does a client that waits for a full writer hold such a turn up for longer
// than the others. What the writer had taken in comes back: it will not be committed.
func TestRoute_LeavesAWriterThatTakesNothing(t *testing.T) {
	for name, size := range map[string]int{"window": 100 << 10, "large": 3 * window} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.tell(other)
				full := make(chan struct{})
				w.its.mu.Lock()
				w.its.closed = full
				w.its.mu.Unlock()
				waiting := make(chan *writer.Produce, 20)
				go func() {
					defer close(waiting)
					for i := range cap(waiting) {
						waiting <- w.route.Add(t.Context(), []writer.Batch{batch(0, -1, int32(i), size)})
					}
				}()
				synctest.Wait()
				require.Less(t, len(waiting), 10, "the writer is full")
				began := time.Now()
				w.tell(me)
				var all []*writer.Produce
				for p := range waiting {
					all = append(all, p)
				}
				require.Less(t, time.Since(began), 2*time.Second)
				synctest.Wait()
				failed := 0
				for _, p := range all {
					select {
					case <-p.Done():
						require.ErrorIs(t, p.Results()[0].Err, writer.ErrNotTaken)
						failed++
					default: // one of this agent's own
					}
				}
				require.Equal(t, 20-failed, len(w.mine.take()))
				require.Zero(t, len(w.its.take()))
			})
		})
	}
}

// TestRoute_TakesBack: what another agent has not handed in for commit comes back when it is left, and no client waits for
// longer than it takes to ask for that. What it has handed in is waited for.
func TestRoute_TakesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		handedIn := w.add(batch(0, -1, 0, 1))
		w.its.mu.Lock()
		w.its.slow = true
		w.its.mu.Unlock()
		slow := w.add(batch(1, -1, 0, 1), batch(2, 7, 0, 1))
		began := time.Now()
		w.tell(me)
		next := make(chan *writer.Produce, 1)
		go func() { next <- w.route.Add(t.Context(), []writer.Batch{batch(1, -1, 1, 1)}) }()
		<-slow.Done()
		require.Equal(t, time.Second, time.Since(began))
		for _, r := range slow.Results() {
			require.ErrorIs(t, r.Err, writer.ErrNotTaken)
		}
		synctest.Wait()
		require.Empty(t, next, "overtakes what was handed in")
		w.its.take()[0].settle(accepted(4))
		require.Equal(t, accepted(4), settledAs(t, handedIn)[0])
		w.one(w.mine).settle(accepted(0))
		settledAs(t, <-next)
	})
}

// TestRoute_LeavesAWriterThatIsCutOff: a writer that says it reaches the object store or the owner no more is left before
// anybody is told to; unless this agent is no better. It is gone back to when it says that all is well.
func TestRoute_LeavesAWriterThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var unfit atomic.Bool
		w.route.cfg.Fit = func() bool { return !unfit.Load() }
		w.tell(other)
		goesTo := func(o *own) {
			t.Helper()
			p := w.add(batch(0, -1, 0, 1))
			w.one(o).settle(accepted(0))
			settledAs(t, p)
		}
		goesTo(w.its)

		unfit.Store(true)
		w.unfit.Store(true)
		time.Sleep(10 * time.Second)
		goesTo(w.its)
		unfit.Store(false)
		time.Sleep(2 * aliveEvery)
		goesTo(w.mine)

		w.mu.Lock()
		dials := w.dials
		w.mu.Unlock()
		time.Sleep(time.Minute)
		goesTo(w.mine)
		require.Empty(t, w.its.take())
		w.mu.Lock()
		require.Less(t, w.dials-dials, 40, "it is not called all the time")
		w.mu.Unlock()
		w.unfit.Store(false)
		time.Sleep(10 * time.Second)
		w.its.take()
		goesTo(w.its)
	})
}
