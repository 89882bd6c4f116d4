package zonewriter

import (
	"bufio"
	"bytes"
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/metadata/id"
)

// TestTaker_KeepsToTheWindow: who sends more than the window allows, or large batches not alone, is no agent of this
// protocol; what a stream can hold of this agent's memory stays bounded.
func TestTaker_KeepsToTheWindow(t *testing.T) {
	for name, c := range map[string]struct {
		frame   []writer.Batch
		allowed int // frames
	}{
		"window":    {[]writer.Batch{batch(0, -1, 0, 60<<10)}, 1 + window/(60<<10)},
		"not asked": {[]writer.Batch{batch(0, -1, 0, 2*window)}, 0},
		"overhead":  {[]writer.Batch{batch(0, -1, 0, 1)}, 1 + window/frameOverhead},
		"not alone": {[]writer.Batch{batch(0, -1, 0, 40<<10), batch(1, -1, 0, 40<<10)}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				blocked := &own{closed: make(chan struct{})}
				taker := NewTaker(TakerConfig{Own: blocked, Silence: time.Hour})
				mine, its := net.Pipe()
				var serving sync.WaitGroup
				serving.Go(func() { taker.Serve(its, bufio.NewReader(its), me) })
				go func() { _, _ = bufio.NewReader(mine).WriteTo(discard{}) }()
				sent := 0
				for ; sent < 2*window/frameOverhead; sent++ {
					raw := head{kindBatches, uint16(len(c.frame)), uint64(sent + 1)}.append(nil)
					for i := range c.frame {
						raw = append(raw, encoded(c.frame[i])...)
					}
					if _, err := mine.Write(raw); err != nil {
						break
					}
				}
				require.LessOrEqual(t, sent, c.allowed+1)
				close(blocked.closed)
				serving.Wait()
				_ = mine.Close()
				require.Empty(t, blocked.take(), "the stream has ended")
			})
		})
	}
}

// TestTaker_SaysWhatIsTakenWhenItHoldsNothingOfIt: who is told that a frame was taken in may send the next one at once, which
// finds the window free; else the stream would be given up for a sender that keeps to it.
func TestTaker_SaysWhatIsTakenWhenItHoldsNothingOfIt(t *testing.T) {
	taken := false
	var s *intake
	s = newIntake(NewTaker(TakerConfig{Own: addFunc(func(batches []writer.Batch) *writer.Produce {
		p := writer.NewProduce(len(batches), s.lease)
		p.OnDone(func() { // while the frame is being added
			out, _ := s.news(nil)
			h, err := readHead(bytes.NewReader(out))
			require.NoError(t, err)
			taken = h.number == 1
			require.Equal(t, taken, s.window.TryAcquire(window), "what a frame holds is free when it is said to be taken")
		})
		s.mu.withdrawn = 1
		return p
	})}), nil, nil)
	require.True(t, s.window.TryAcquire(window))
	s.frames <- frame{number: 1, batches: []writer.Batch{batch(0, -1, 0, 1)}, window: window}
	close(s.frames)
	s.add()
	require.False(t, taken)
	out, _ := s.news(nil)
	h, err := readHead(bytes.NewReader(out))
	require.NoError(t, err)
	require.Equal(t, head{kind: kindAlive, number: 1}, h)
	require.True(t, s.window.TryAcquire(window))
}

// addFunc is an agent's writer that is a function.
type addFunc func(batches []writer.Batch) *writer.Produce

func (f addFunc) Add(_ context.Context, batches []writer.Batch) *writer.Produce { return f(batches) }

func (addFunc) Flush() {}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// TestTaker_LargeBatchesWaitForRoom: a batch above the window waits for room for longer than a stream may be silent, and
// nothing is lost; one whose client has gone holds nothing of it.
func TestTaker_LargeBatchesWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		require.NoError(t, w.taker.large.Acquire(t.Context(), DefaultLargeBytes))
		first := w.add(batch(0, -1, 0, 1))
		ctx, cancel := context.WithTimeout(t.Context(), 4*DefaultSilence)
		gone := w.route.Add(ctx, []writer.Batch{batch(0, -1, 1, 2*window)})
		cancel()
		require.ErrorIs(t, settledAs(t, gone)[0].Err, writer.ErrNotTaken)
		large := make(chan *writer.Produce, 1)
		go func() { large <- w.route.Add(t.Context(), []writer.Batch{batch(0, -1, 2, 3*window)}) }()
		time.Sleep(4 * DefaultSilence)
		require.Empty(t, large)
		w.taker.large.Release(DefaultLargeBytes)
		last := w.add(batch(0, -1, 3, 1))
		synctest.Wait()
		came := w.its.take()
		require.Len(t, came, 3)
		require.Len(t, came[1].batch.Bytes, len(batch(0, -1, 2, 3*window).Bytes))
		for i, p := range []*writer.Produce{first, <-large, last} {
			came[i].settle(accepted(int64(i)))
			require.Equal(t, accepted(int64(i)), settledAs(t, p)[0])
		}
		require.Empty(t, w.mine.take())
		require.True(t, w.taker.large.TryAcquire(DefaultLargeBytes), "all room is given back")
		w.taker.large.Release(DefaultLargeBytes)
	})
}

// TestLink_LargeBatchesCrossSlowly: a batch may take much longer than a stream may be silent, as long as each piece of it
// comes; what was handed over before is still counted on meanwhile. One that takes too long has the stream given up.
func TestLink_LargeBatchesCrossSlowly(t *testing.T) {
	for name, c := range map[string]struct {
		each time.Duration // for a piece
		came bool
	}{"slowly": {time.Second, true}, "too slowly": {2500 * time.Millisecond, false}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.transmit = func(conn net.Conn) net.Conn { return &slow{conn, c.each} }
				w.tell(other)
				first := w.add(batch(0, -1, 0, 1))
				time.Sleep(time.Second)
				lease := w.one(w.its).batch.Lease
				large := make(chan *writer.Produce, 1)
				began := time.Now()
				go func() { large <- w.route.Add(t.Context(), []writer.Batch{batch(0, -1, 1, 16*pieceBytes)}) }()
				for range 14 {
					time.Sleep(time.Second)
					require.True(t, holds(lease) || !c.came, time.Since(began))
				}
				p := <-large
				time.Sleep(time.Second) // the rest of it
				if !c.came {
					require.Less(t, time.Since(began), largeTimeout+DefaultSilence)
					require.ErrorIs(t, settledAs(t, p)[0].Err, writer.ErrUnknownOutcome)
					require.ErrorIs(t, settledAs(t, first)[0].Err, writer.ErrUnknownOutcome)
					require.False(t, holds(lease))
					return
				}
				w.one(w.its).settle(accepted(1))
				require.Equal(t, accepted(1), settledAs(t, p)[0])
				pending(t, first)
			})
		})
	}
}

// slow is a connection that takes its time for what is written.
type slow struct {
	net.Conn
	each time.Duration // for pieceBytes
}

func (s *slow) Write(p []byte) (int, error) {
	for n := 0; n < len(p); {
		part := p[n:min(n+pieceBytes/8, len(p))]
		time.Sleep(s.each * time.Duration(len(part)) / pieceBytes)
		k, err := s.Conn.Write(part)
		if n += k; err != nil {
			return n, err
		}
	}
	return len(p), nil
}

// TestTaker_ForgetsALargeBatchOfAStreamThatEnds: neither what was asked for nor what was read when the stream ended holds
// anything of what others wait for.
func TestTaker_ForgetsALargeBatchOfAStreamThatEnds(t *testing.T) {
	for name, sent := range map[string]int{"asked for": 0, "half sent": window, "sent": 3 * window} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				blocked := &own{closed: make(chan struct{})}
				taker := NewTaker(TakerConfig{Own: blocked})
				mine, its := net.Pipe()
				var serving sync.WaitGroup
				serving.Go(func() { taker.Serve(its, bufio.NewReader(its), me) })
				go func() { _, _ = bufio.NewReader(mine).WriteTo(discard{}) }()
				b := batch(0, -1, 0, 2*window)
				_, err := mine.Write(head{kindAsk, 1, uint64(len(b.Bytes))}.append(nil))
				require.NoError(t, err)
				synctest.Wait()
				require.False(t, taker.large.TryAcquire(DefaultLargeBytes), "there is room for it")
				raw := append(head{kindBatches, 1, 1}.append(nil), encoded(b)...)
				_, err = mine.Write(raw[:min(sent, len(raw))])
				require.NoError(t, err)
				synctest.Wait()
				_ = mine.Close()
				serving.Wait()
				require.True(t, taker.large.TryAcquire(DefaultLargeBytes), "the batch that was dropped holds its part")
			})
		})
	}
}

// TestTaker_BoundsTheTimeOfALargeBatch: neither a batch that comes piece by slow piece nor room that is asked for and not
// used keeps the room from other streams for longer than a large batch may take.
func TestTaker_BoundsTheTimeOfALargeBatch(t *testing.T) {
	for name, pieces := range map[string]bool{"slow pieces": true, "room not used": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				taker := NewTaker(TakerConfig{Own: &own{}})
				mine, its := net.Pipe()
				var serving sync.WaitGroup
				serving.Go(func() { taker.Serve(its, bufio.NewReader(its), me) })
				go func() { _, _ = bufio.NewReader(mine).WriteTo(discard{}) }()
				raw := encoded(batch(0, -1, 0, 64*pieceBytes))
				_, err := mine.Write(head{kindAsk, 1, 64 * pieceBytes * 2}.append(nil))
				require.NoError(t, err)
				synctest.Wait()
				require.False(t, taker.large.TryAcquire(DefaultLargeBytes), "there is room for it")
				if pieces {
					_, err = mine.Write(head{kindBatches, 1, 1}.append(nil))
					require.NoError(t, err)
				}
				began := time.Now()
				for err == nil && time.Since(began) < 2*largeTimeout {
					next := head{kind: kindAlive, number: 1}.append(nil)
					if pieces {
						next, raw = raw[:pieceBytes], raw[pieceBytes:]
					}
					_, err = mine.Write(next)
					time.Sleep(time.Second)
				}
				require.Error(t, err, "the stream is closed")
				serving.Wait()
				require.LessOrEqual(t, time.Since(began), largeTimeout+2*DefaultSilence)
				require.True(t, taker.large.TryAcquire(DefaultLargeBytes))
				_ = mine.Close()
			})
		})
	}
}

// lying is the writer's end of a stream that keeps to the protocol as far as answer says.
func lying(t *testing.T, w *world, answer func(conn net.Conn, h head)) {
	t.Helper()
	w.route.cfg.Dial = func(context.Context, id.Session) (net.Conn, *bufio.Reader, error) {
		mine, its := net.Pipe()
		w.serving.Go(func() {
			in := bufio.NewReader(its)
			for {
				h, err := readHead(in)
				if err == nil && h.kind == kindBatches {
					for range h.count {
						var to place
						if to, err = readPlace(in); err == nil {
							_, err = in.Discard(int(to.size))
						}
					}
				}
				if err != nil {
					_ = its.Close()
					return
				}
				answer(its, h)
			}
		})
		return mine, bufio.NewReader(mine), nil
	}
}

// TestRoute_LeavesAWriterWithoutBeats: a writer that sends signs of life and no beat is given up, and does not keep the route
// from turning to another.
func TestRoute_LeavesAWriterWithoutBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		lying(t, w, func(conn net.Conn, h head) {
			_, _ = conn.Write(head{kind: kindAlive}.append(nil))
		})
		w.tell(other)
		time.Sleep(10 * DefaultSilence)
		require.Positive(t, testutil.ToFloat64(w.route.metrics.failures))
		w.add(batch(0, -1, 0, 1))
		w.one(w.mine).settle(accepted(0))
	})
}

// TestLink_GivesUpAWriterThatSettlesNothing: a writer that takes frames in and says that it is well, and never has a result,
// does not make this agent note frames without end.
func TestLink_GivesUpAWriterThatSettlesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		beat := uint64(0)
		lying(t, w, func(conn net.Conn, h head) {
			beat++
			out := head{kind: kindBeat, number: beat}.append(nil)
			if h.kind == kindBatches {
				out = head{kind: kindAlive, number: h.number}.append(out)
			}
			_, _ = conn.Write(out)
		})
		w.tell(other)
		time.Sleep(time.Second)
		p := w.add(batch(0, -1, 0, 1))
		time.Sleep(settleTimeout - time.Second)
		pending(t, p)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, settledAs(t, p)[0].Err, writer.ErrUnknownOutcome)
	})
}

// TestTaker_FramesAreNumberedInOrder: a frame that has the number of another would not be withdrawn with its stream.
func TestTaker_FramesAreNumberedInOrder(t *testing.T) {
	for name, numbers := range map[string][]uint64{"twice": {1, 1}, "back": {1, 2, 1}, "ahead": {1, 3}, "not from one": {2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				its := &own{}
				taker := NewTaker(TakerConfig{Own: its})
				mine, conn := net.Pipe()
				var serving sync.WaitGroup
				serving.Go(func() { taker.Serve(conn, bufio.NewReader(conn), me) })
				go func() { _, _ = bufio.NewReader(mine).WriteTo(discard{}) }()
				for _, n := range numbers {
					_, _ = mine.Write(append(head{kindBatches, 1, n}.append(nil), encoded(batch(0, -1, 0, 1))...))
					synctest.Wait()
				}
				require.Len(t, its.take(), len(numbers)-1)
				serving.Wait()
				_ = mine.Close()
			})
		})
	}
}

// TestTaker_BoundsTheStreamsOfAnAgent: an agent that opens stream after stream loses its oldest, and no other agent one.
func TestTaker_BoundsTheStreamsOfAnAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		taker := NewTaker(TakerConfig{Own: &own{}, Silence: time.Hour})
		var serving sync.WaitGroup
		open := func(from id.Session) net.Conn {
			mine, its := net.Pipe()
			serving.Go(func() { taker.Serve(its, bufio.NewReader(its), from) })
			go func() { _, _ = bufio.NewReader(mine).WriteTo(discard{}) }()
			synctest.Wait()
			return mine
		}
		stands := func(conn net.Conn) bool {
			_, err := conn.Write(head{kind: kindAlive}.append(nil))
			return err == nil
		}
		neighbour := open(other)
		var mine []net.Conn
		for range maxStreams {
			mine = append(mine, open(me))
		}
		require.True(t, stands(mine[0]))
		mine = append(mine, open(me), open(me))
		for i, conn := range mine {
			require.Equal(t, i >= 2, stands(conn), i)
		}
		require.True(t, stands(neighbour))
		for _, conn := range append(mine, neighbour) {
			_ = conn.Close()
		}
		serving.Wait()
	})
}

// TestTaker_LargeBatchesKeepToTheirRoom: with little room a batch above it still comes, alone.
func TestTaker_LargeBatchesKeepToTheirRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const room = 2 * window
		w := newWorld(t)
		w.taker = NewTaker(TakerConfig{Own: w.its, LargeBytes: room})
		w.tell(other)
		for i, size := range []int{room / 2, 3 * room, room + window} {
			w.add(batch(0, -1, int32(i), size))
			got := w.one(w.its)
			require.Greater(t, len(got.batch.Bytes), size)
			got.settle(accepted(int64(i)))
		}
		require.True(t, w.taker.large.TryAcquire(room), "all room is given back")
		w.taker.large.Release(room)
	})
}
