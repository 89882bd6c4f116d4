package zonewriter

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/controlplane/api"
	"github.com/freshet-io/freshet/metadata/id"
)

// seq returns the first sequence of a batch.
func seq(b writer.Batch) int32 { return int32(binary.BigEndian.Uint32(b.Bytes[53:])) }

// addLater hands batches over in the background.
func (w *world) addLater(ctx context.Context, batches ...writer.Batch) <-chan *writer.Produce {
	w.t.Helper()
	done := make(chan *writer.Produce, 1)
	go func() { done <- w.route.Add(ctx, batches) }()
	synctest.Wait()
	return done
}

// TestRoute_OthersPassALargeBatch: while a large batch waits for room, batches of other partitions are acknowledged, also
// those of its own request. Later batches of its partition come behind it.
func TestRoute_OthersPassALargeBatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		require.NoError(t, w.taker.large.Acquire(t.Context(), DefaultLargeBytes))
		large := w.addLater(t.Context(), batch(1, -1, 0, 1), batch(0, -1, 0, 2*window), batch(2, -1, 0, 1), batch(0, -1, 1, 1))
		behind := w.addLater(t.Context(), batch(0, -1, 2, 2*window), batch(3, -1, 0, 1), batch(0, -1, 3, 1))
		for i := range int32(2 * window / (60 << 10)) { // more than the window
			p := w.addLater(t.Context(), batch(4, -1, i, 60<<10))
			require.NotEmpty(t, p, "batch %d of another partition waits", i)
			came := w.its.take()
			last := came[len(came)-1]
			last.settle(accepted(int64(i)))
			require.Equal(t, accepted(int64(i)), settledAs(t, <-p)[0])
			if i > 0 {
				require.Len(t, came, 1)
				continue
			}
			require.Len(t, came, 4, "the others of the large batches' requests")
			for k, partition := range []int32{1, 2, 3} {
				require.Equal(t, partition, came[k].batch.Partition.Partition)
			}
		}
		require.Empty(t, large)
		require.Empty(t, behind)
		w.taker.large.Release(DefaultLargeBytes)
		synctest.Wait()
		came := w.its.take()
		require.Len(t, came, 4)
		for i := range came {
			require.Zero(t, came[i].batch.Partition.Partition)
			require.Equal(t, int32(i), seq(came[i].batch))
		}
		require.NotEmpty(t, large)
		require.NotEmpty(t, behind)
		w.add(batch(0, -1, 4, 1))
		require.Equal(t, int32(4), seq(w.one(w.its).batch), "the partition is held no more")
		require.Empty(t, w.route.link.mu.held)
	})
}

// TestRoute_ALargeBatchThatEndsHoldsNothing: when the client of a large batch has gone, or its writer is left, what waits
// behind the batch goes on.
func TestRoute_ALargeBatchThatEndsHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		require.NoError(t, w.taker.large.Acquire(t.Context(), DefaultLargeBytes))
		ctx, cancel := context.WithCancel(t.Context())
		first := w.addLater(ctx, batch(0, -1, 0, 2*window))
		impatient, leave := context.WithCancel(t.Context())
		gone := w.addLater(impatient, batch(0, -1, 9, 1))
		behind := w.addLater(t.Context(), batch(0, -1, 1, 1))
		leave()
		require.ErrorIs(t, settledAs(t, <-gone)[0].Err, writer.ErrNotTaken)
		require.Empty(t, behind, "it overtakes the large batch")
		cancel()
		require.ErrorIs(t, settledAs(t, <-first)[0].Err, writer.ErrNotTaken)
		settle := w.one(w.its).settle
		settle(accepted(1))
		require.Equal(t, accepted(1), settledAs(t, <-behind)[0])

		first, behind = w.addLater(t.Context(), batch(0, -1, 2, 2*window)), w.addLater(t.Context(), batch(0, -1, 3, 1))
		w.tell(me)
		next := w.add(batch(0, -1, 4, 1))
		require.Equal(t, int32(4), seq(w.one(w.mine).batch))
		pending(t, next)
		require.ErrorIs(t, settledAs(t, <-first)[0].Err, writer.ErrNotTaken)
		require.ErrorIs(t, settledAs(t, <-behind)[0].Err, writer.ErrNotTaken)
		require.Empty(t, w.its.take())
		w.taker.large.Release(DefaultLargeBytes)
	})
}

// TestLink_GivesRoomBack: room that cannot be used because the writer takes nothing in goes back to the other streams, and
// is asked for again. The stream stands all that time.
func TestLink_GivesRoomBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.tell(other)
		full := make(chan struct{})
		w.its.mu.Lock()
		w.its.closed = full
		w.its.mu.Unlock()
		w.add(batch(1, -1, 0, 60<<10))
		large := w.addLater(t.Context(), batch(0, -1, 0, 2*window))
		require.False(t, w.taker.large.TryAcquire(DefaultLargeBytes), "there is room for it")
		require.NoError(t, w.taker.large.Acquire(t.Context(), DefaultLargeBytes))
		time.Sleep(largeTimeout + 5*time.Second)
		require.Empty(t, large)
		w.taker.large.Release(DefaultLargeBytes)
		time.Sleep(largeTimeout + 5*time.Second)
		require.Empty(t, large)
		close(full)
		synctest.Wait()
		came := w.its.take()
		require.Len(t, came, 2)
		came[1].settle(accepted(0))
		require.Equal(t, accepted(0), settledAs(t, <-large)[0])
		w.mu.Lock()
		require.Equal(t, 1, w.dials)
		w.mu.Unlock()
		require.True(t, w.taker.large.TryAcquire(DefaultLargeBytes), "all room is given back")
	})
}

// TestRoute_KeepsOrderAroundLargeBatches: clients of the same partitions hand in batches of all sizes while room comes and
// goes and the route turns. What is committed of each client is in order (I2), without those that were refused.
func TestRoute_KeepsOrderAroundLargeBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.taker = NewTaker(TakerConfig{Own: w.its, LargeBytes: 3 * window})
		w.transmit = func(conn net.Conn) net.Conn { return &slow{conn, 10 * time.Millisecond} }
		const partitions, clients, each = 2, 3, 40
		var mu sync.Mutex
		var committed [partitions][clients][]int32
		stop := make(chan struct{})
		var all sync.WaitGroup
		every := func(seed uint64, limit time.Duration, do func(r *rand.Rand)) {
			all.Go(func() {
				r := rand.New(rand.NewPCG(seed, seed))
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(r.Int64N(int64(limit)))):
						do(r)
					}
				}
			})
		}
		for i, o := range []*own{w.mine, w.its} {
			every(uint64(i), 200*time.Millisecond, func(*rand.Rand) {
				mu.Lock()
				defer mu.Unlock()
				for _, a := range o.take() {
					p, n := a.batch.Partition.Partition, seq(a.batch)
					committed[p][n/each] = append(committed[p][n/each], n%each)
					a.settle(accepted(0))
				}
			})
		}
		every(2, 5*time.Second, func(r *rand.Rand) {
			w.route.OnZoneWriter(&api.ZoneWriter{Session: uint32([]id.Session{me, other, other}[r.IntN(3)])})
		})
		every(3, 2*time.Second, func(r *rand.Rand) {
			if w.taker.large.Acquire(t.Context(), 3*window) == nil {
				time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
				w.taker.large.Release(3 * window)
			}
		})
		var sending sync.WaitGroup
		var produces [partitions][clients][]*writer.Produce
		for p := range partitions {
			for c := range clients {
				sending.Go(func() {
					r := rand.New(rand.NewPCG(uint64(p), uint64(c)))
					for i := range each {
						time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
						size := []int{10, 10, 50 << 10, window}[r.IntN(4)]
						b := batch(int32(p), -1, int32(c*each+i), size)
						produces[p][c] = append(produces[p][c], w.route.Add(t.Context(), []writer.Batch{b}))
					}
				})
			}
		}
		sending.Wait()
		time.Sleep(time.Minute)
		close(stop)
		all.Wait()
		synctest.Wait()
		for p := range partitions {
			for c := range clients {
				var taken []int32
				for i, produce := range produces[p][c] {
					if r := settledAs(t, produce)[0]; r.Err == nil {
						taken = append(taken, int32(i))
					} else {
						require.ErrorIs(t, r.Err, writer.ErrNotTaken)
					}
				}
				require.Equal(t, taken, committed[p][c], "partition %d, client %d", p, c)
				require.Greater(t, len(taken), each/2)
			}
		}
	})
}
