package zonewriter

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

func TestRoute_WritesItselfUntilItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.add(batch(0, -1, 0, 10))
		w.one(w.mine).settle(accepted(5))
		require.Equal(t, []writer.Result{accepted(5)}, settledAs(t, p))
		require.InDelta(t, 0.5, w.route.Share(), 1e-9, "an equal share of two agents")
		w.tell(me)
		w.add(batch(0, -1, 0, 10))
		w.one(w.mine).settle(accepted(6))
		require.Empty(t, w.its.take())
	})
}

func TestRoute_HandsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		sent := []writer.Batch{batch(3, 8, 2, 10), batch(4, -1, 0, 200<<10), batch(5, 9, 0, 10)}
		sent[0].Latency = writer.Fast
		p := w.add(sent...)
		require.Empty(t, w.mine.take())
		came := w.its.take()
		require.Len(t, came, 3)
		stream := came[0].batch.Window
		require.True(t, stream.Parked(3), "each came as a frame")
		for i := range came {
			require.NotNil(t, came[i].batch.Lease)
			require.True(t, stream == came[i].batch.Window)
			came[i].batch.Lease, came[i].batch.Window = nil, nil
			require.Equal(t, sent[i], came[i].batch, "batch %d", i)
		}
		came[2].settle(writer.Result{Outcome: commit.Duplicate, Base: 77, LogStart: 5})
		came[0].settle(accepted(100))
		synctest.Wait()
		pending(t, p)
		require.True(t, stream.Parked(1))
		came[1].settle(writer.Failed(fmt.Errorf("%w: why", writer.ErrStore)))
		got := settledAs(t, p)
		require.Equal(t, accepted(100), got[0])
		require.ErrorIs(t, got[1].Err, writer.ErrStore)
		require.Equal(t, writer.Result{Outcome: commit.Duplicate, Base: 77, LogStart: 5}, got[2])
	})
}

func TestRoute_ErrorsCrossTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		for _, err := range faults {
			p := w.add(batch(0, 1, 0, 1))
			w.one(w.its).settle(writer.Failed(err))
			require.ErrorIs(t, settledAs(t, p)[0].Err, err)
			w.tell(other)
			time.Sleep(time.Minute) // until a stream that said it drains is opened again
			synctest.Wait()
		}
	})
}

// TestRoute_TurnsInOrder: what follows a turn is handed in only when what went before is settled, both ways.
func TestRoute_TurnsInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		first := w.add(batch(0, -1, 0, 1))
		w.tell(other)
		require.Equal(t, 1, w.mine.flushes, "what went before is sealed at once")
		second := make(chan *writer.Produce, 1)
		go func() { second <- w.route.Add(t.Context(), []writer.Batch{batch(0, -1, 1, 1)}) }()
		time.Sleep(20 * time.Second)
		synctest.Wait()
		require.Empty(t, w.its.take(), "overtakes")
		w.one(w.mine).settle(accepted(0))
		settledAs(t, first)
		p := <-second
		synctest.Wait()
		before := w.one(w.its)
		w.tell(me)
		require.Equal(t, 1, w.its.flushes)
		go func() { second <- w.route.Add(t.Context(), []writer.Batch{batch(0, -1, 2, 1)}) }()
		time.Sleep(leaveTimeout - time.Second)
		synctest.Wait()
		require.Empty(t, w.mine.take(), "overtakes")
		before.settle(accepted(1))
		settledAs(t, p)
		p = <-second
		w.one(w.mine).settle(accepted(2))
		settledAs(t, p)
	})
}

// TestRoute_TurnsDespiteGaps: batches whose order sequence numbers keep hold a turn up only for a while.
func TestRoute_TurnsDespiteGaps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		p := w.add(batch(0, 1, 5, 1))
		w.tell(other)
		began := time.Now()
		next := w.add(batch(0, 1, 4, 1))
		require.Equal(t, time.Second, time.Since(began))
		w.one(w.its).settle(accepted(0))
		settledAs(t, next)
		w.one(w.mine).settle(accepted(1))
		settledAs(t, p)
	})
}

// TestRoute_StreamLost: the outcome of what was on its way is unknown, what comes is written by this agent, and then by
// the other again.
func TestRoute_StreamLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		p := w.add(batch(0, 1, 0, 1), batch(1, -1, 0, 1))
		w.mu.Lock()
		w.unreached = true
		_ = w.conns[0].Close()
		w.mu.Unlock()
		for _, r := range settledAs(t, p) {
			require.ErrorIs(t, r.Err, writer.ErrUnknownOutcome)
		}
		p = w.add(batch(0, 1, 1, 1))
		w.one(w.mine).settle(accepted(9))
		settledAs(t, p)
		time.Sleep(time.Minute)
		w.mu.Lock()
		require.Less(t, w.dials, 40, "it is not called all the time")
		w.unreached = false
		w.mu.Unlock()
		time.Sleep(10 * time.Second)
		w.its.take()
		p = w.add(batch(0, 1, 2, 1))
		w.one(w.its).settle(accepted(10))
		settledAs(t, p)
	})
}

// TestRoute_SilentWriter: an agent that hangs is given up.
func TestRoute_SilentWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		var silent atomic.Bool
		w.transmit = func(c net.Conn) net.Conn { return &deaf{Conn: c, on: &silent} }
		w.tell(other)
		p := w.add(batch(0, 1, 0, 1))
		w.mu.Lock()
		silent.Store(true)
		w.unreached = true
		w.mu.Unlock()
		time.Sleep(2 * DefaultSilence)
		require.ErrorIs(t, settledAs(t, p)[0].Err, writer.ErrUnknownOutcome)
		w.its.take()
		p = w.add(batch(0, 1, 1, 1))
		w.one(w.mine).settle(accepted(9))
		settledAs(t, p)
	})
}

// deaf is a connection that brings nothing any more.
type deaf struct {
	net.Conn
	on *atomic.Bool
}

func (d *deaf) Read(p []byte) (int, error) {
	for {
		n, err := d.Conn.Read(p)
		if err != nil || !d.on.Load() {
			return n, err
		}
	}
}

// TestRoute_HeldUp: while the writer has no memory its senders wait, as long as their contexts allow, and what they had
// not handed over has no effect.
func TestRoute_HeldUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		w.its.mu.Lock()
		w.its.closed = make(chan struct{})
		w.its.mu.Unlock()
		var on []*writer.Produce
		var late *writer.Produce
		for range 20 {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			p := w.route.Add(ctx, []writer.Batch{batch(0, -1, int32(len(on)), 100<<10)})
			expired := ctx.Err() != nil
			cancel()
			if expired {
				late = p
				break
			}
			on = append(on, p)
		}
		require.NotNil(t, late, "all was handed over")
		require.LessOrEqual(t, len(on)*100<<10, window+200<<10)
		require.ErrorIs(t, settledAs(t, late)[0].Err, writer.ErrNotTaken)
		w.its.mu.Lock()
		close(w.its.closed)
		w.its.closed = nil
		w.its.mu.Unlock()
		synctest.Wait()
		came := w.its.take()
		require.Len(t, came, len(on))
		for i, a := range came {
			a.settle(accepted(int64(i)))
			require.Equal(t, accepted(int64(i)), settledAs(t, on[i])[0])
		}
	})
}

// TestRoute_Drains: an agent that stops has what the other writes for it settled first, and takes no more.
func TestRoute_Drains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		p := w.add(batch(0, -1, 0, 1))
		drained := make(chan error, 1)
		go func() { drained <- w.route.Drain(t.Context()) }()
		synctest.Wait()
		require.Empty(t, drained)
		require.Equal(t, 1, w.its.flushes)
		w.one(w.its).settle(accepted(0))
		settledAs(t, p)
		require.NoError(t, <-drained)
		require.ErrorIs(t, settledAs(t, w.add(batch(0, -1, 1, 1)))[0].Err, writer.ErrDraining)
		require.NoError(t, w.taker.Drain(t.Context()), "the stream was let go")
	})
}

// TestTaker_Drains: an agent that stops waits until those whose batches it takes have turned elsewhere.
func TestTaker_Drains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		drained := make(chan error, 1)
		go func() { drained <- w.taker.Drain(t.Context()) }()
		synctest.Wait()
		require.Empty(t, drained)
		p := w.add(batch(0, -1, 0, 1))
		w.one(w.its).settle(accepted(0))
		require.Equal(t, accepted(0), settledAs(t, p)[0], "until then it takes what comes")
		w.tell(me)
		require.NoError(t, <-drained)
	})
}

// TestRoute_WriterDrains: a writer that takes no more is left, though nobody has said so yet.
func TestRoute_WriterDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		w.its.mu.Lock()
		w.its.refuse = writer.ErrDraining
		w.its.mu.Unlock()
		w.mu.Lock()
		w.unreached = true
		w.mu.Unlock()
		require.ErrorIs(t, settledAs(t, w.add(batch(0, -1, 0, 1)))[0].Err, writer.ErrDraining)
		p := w.add(batch(0, -1, 0, 1))
		w.one(w.mine).settle(accepted(0))
		require.Equal(t, accepted(0), settledAs(t, p)[0])
	})
}

// TestTaker_RefusesDamage: a batch that came damaged is not written, and its stream is closed.
func TestTaker_RefusesDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		damage := false
		w.transmit = func(c net.Conn) net.Conn { return &damaging{Conn: c, on: &damage} }
		w.tell(other)
		damage = true
		p := w.add(batch(0, -1, 0, 500))
		require.ErrorIs(t, settledAs(t, p)[0].Err, writer.ErrUnknownOutcome)
		require.Empty(t, w.its.take())
	})
}

// TestRoute_ExtremeBatchesCross hands over batches whose header fields are at or beyond their bounds. They come as they were
// sent, so that the writer can refuse them alone, and the stream goes on.
func TestRoute_ExtremeBatchesCross(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		for _, field := range []struct{ at, size int }{{0, 8}, {12, 4}, {21, 2}, {23, 4}, {27, 8}, {35, 8}, {43, 8}, {51, 2}, {53, 4}, {57, 4}} {
			for _, value := range []uint64{0, 1 << 62, math.MaxInt64, 1 << 63, math.MaxUint64} {
				var raw [8]byte
				binary.BigEndian.PutUint64(raw[:], value)
				bad := batch(1, 7, 0, 500)
				copy(bad.Bytes[field.at:], raw[:field.size])
				binary.BigEndian.PutUint32(bad.Bytes[17:], kafkaproto.RecordBatch(bad.Bytes).ComputeCRC())
				bad = writer.BatchOf(bad.Partition, bad.Bytes)
				p := w.add(batch(0, -1, 0, 500), bad, batch(2, -1, 0, 500))
				came := w.its.take()
				require.Len(t, came, 3, "field at %d, value %x", field.at, value)
				require.Equal(t, bad.Commit, came[1].batch.Commit)
				came[0].settle(accepted(1))
				came[1].settle(writer.Failed(writer.ErrMalformed))
				came[2].settle(accepted(2))
				got := settledAs(t, p)
				require.Equal(t, accepted(1), got[0])
				require.ErrorIs(t, got[1].Err, writer.ErrMalformed)
				require.Equal(t, accepted(2), got[2])
			}
		}
	})
}

// damaging flips a bit of the last byte of large writes.
type damaging struct {
	net.Conn
	on *bool
}

func (d *damaging) Write(p []byte) (int, error) {
	if *d.on && len(p) > 100 {
		p = append([]byte(nil), p...)
		p[len(p)-1] ^= 1
	}
	return d.Conn.Write(p)
}

// TestRoute_KeepsOrder: clients hand in one batch after the other, without waiting for answers, while the route turns
// at random moments; each writer commits in order, both at their own times. Per client the commits are in order (I2).
func TestRoute_KeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		committed := map[int32][]byte{} // by partition: one client each
		writes := func(o *own, seed uint64, stop <-chan struct{}) {
			r := rand.New(rand.NewPCG(seed, seed))
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(r.IntN(300)) * time.Millisecond):
				}
				for _, a := range o.take() {
					mu.Lock()
					p := a.batch.Partition.Partition
					committed[p] = append(committed[p], a.batch.Bytes[len(a.batch.Bytes)-10-1])
					mu.Unlock()
					a.settle(accepted(0))
				}
			}
		}
		stop := make(chan struct{})
		var all sync.WaitGroup
		all.Go(func() { writes(w.mine, 3, stop) })
		all.Go(func() { writes(w.its, 4, stop) })
		const clients, each = 4, 200
		var clientsDone sync.WaitGroup
		produces := make([][]*writer.Produce, clients)
		for c := range clients {
			clientsDone.Go(func() {
				r := rand.New(rand.NewPCG(9, uint64(c)))
				for i := range each {
					time.Sleep(time.Duration(r.IntN(40)) * time.Millisecond)
					produces[c] = append(produces[c], w.route.Add(t.Context(), []writer.Batch{batch(int32(c), -1, int32(i), 10)}))
				}
			})
		}
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(r.IntN(500)) * time.Millisecond):
				}
				w.route.OnZoneWriter(zoneWriter([]id.Session{me, other}[i%2]))
			}
		})
		clientsDone.Wait()
		time.Sleep(time.Minute)
		close(stop)
		all.Wait()
		synctest.Wait()
		for c := range clients {
			require.Len(t, committed[int32(c)], each)
			for i, seq := range committed[int32(c)] {
				require.Equal(t, byte(i), seq, "client %d", c)
				require.Equal(t, accepted(0), settledAs(t, produces[c][i])[0])
			}
		}
	})
}
