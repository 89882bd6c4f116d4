package writer_test

import (
	"bytes"
	"context"
	"fmt"
	"hash/crc32"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/slab"
	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/durable"
)

func first(err error) func(context.Context, int) error {
	return func(_ context.Context, k int) error {
		if k == 1 {
			return err
		}
		return nil
	}
}

func TestWriter_ALostPutAnswerIsResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.bucket.after = first(objstore.ErrOutcomeUnknown)
		b := plain(0, 5000)
		require.Zero(t, r.accepted(r.add(b)), "412 with the same content is success")
		require.Equal(t, 2, r.bucket.count())
		require.True(t, bytes.Equal(want(b), r.stored(0)))
	})
}

func TestWriter_AThrottledPutIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.bucket.before = first(objstore.ErrThrottled)
		began := time.Now()
		r.accepted(r.add(plain(0, 5000)))
		require.GreaterOrEqual(t, time.Since(began), 500*time.Millisecond)
	})
}

func TestWriter_ABundleThatCannotBeStoredIsAbandoned(t *testing.T) {
	for name, fault := range map[string]func(context.Context, int) error{
		"refused for good": first(errPermission),
		"stalled for good": delay(1, time.Hour),
		"failing for good": func(_ context.Context, k int) error {
			if k == 2 || k == 3 {
				return nil
			}
			return objstore.ErrOutcomeUnknown
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(c *writer.Config) {
					c.FlushBytes = 10 << 10
					c.Retry = durable.Policy{AttemptTimeout: time.Hour}
				})
				r.bucket.before = fault
				began := time.Now()
				lost := r.add(plain(0, 10<<10))
				synctest.Wait()
				one, two := plain(0, 10<<10), plain(0, 10<<10)
				kept := []*writer.Produce{r.add(one), r.add(two)}
				require.ErrorIs(t, r.result(lost).Err, writer.ErrStore)
				require.EqualValues(t, 0, r.accepted(kept[0]), "an abandoned submission takes no offsets")
				require.EqualValues(t, 102, r.accepted(kept[1]))
				require.LessOrEqual(t, time.Since(began), 61*time.Second)
				require.True(t, bytes.Equal(want(one, two), r.stored(0)))
				require.Equal(t, []id.Submission{{Session: 1, N: 2}, {Session: 1, N: 3}}, r.seq.applied())
				require.EqualValues(t, 1, metric(t, r, "freshet_writer_abandoned_bundles_total"))
			})
		})
	}
}

func metric(t *testing.T, r *rig, name string) float64 {
	t.Helper()
	families, err := r.reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

func TestWriter_AForeignObjectUnderTheKeyAbandons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var once sync.Once
		r.bucket.before = func(ctx context.Context, _ int) (err error) {
			once.Do(func() {
				err = r.bucket.Bucket.Put(ctx, objectKey(1, 1), objstore.NewBody([]byte("foreign")))
			})
			return err
		}
		require.ErrorIs(t, r.result(r.add(plain(0, 100))).Err, durable.ErrForeign)
		require.Zero(t, r.accepted(r.add(plain(0, 100))))
	})
}

// hedging answers a put from its first attempt, while a second one goes on reading the buffers for a while.
type hedging struct {
	*bucket
	lag   time.Duration
	wrong chan error
}

func (h *hedging) PutReleasing(ctx context.Context, key string, body objstore.Body, released func()) error {
	err := h.Put(ctx, key, body)
	go func() {
		defer released()
		var crc uint32
		for _, b := range body.Buffers {
			half := len(b) / 2
			crc = crc32.Update(crc, objstore.Castagnoli, b[:half])
			<-time.After(h.lag / time.Duration(len(body.Buffers)))
			crc = crc32.Update(crc, objstore.Castagnoli, b[half:])
		}
		if crc != body.CRC32C {
			h.wrong <- fmt.Errorf("%s: a late attempt read other bytes", key)
		}
	}()
	return err
}

func TestWriter_LateAttemptsReadWhatWasPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hedging{lag: 2 * time.Second, wrong: make(chan error, 1000)}
		r := newRig(t, func(c *writer.Config) {
			c.FlushBytes = 100 << 10
			h.bucket = c.Bucket.(*bucket)
			c.Bucket = h
		})
		var sent [4][]writer.Batch
		for i := range 100 {
			b := plain(int32(i%4), 100+i*97)
			sent[i%4] = append(sent[i%4], b)
			began := time.Now()
			r.accepted(r.add(b))
			require.Less(t, time.Since(began), time.Second, "the answer does not wait for the late attempt")
			if i%10 == 0 {
				r.sink.releaseAll() // memory is used again, poisoned in between
			}
		}
		<-time.After(3 * time.Second)
		synctest.Wait()
		require.Empty(t, h.wrong)
		for p := range sent {
			require.True(t, bytes.Equal(want(sent[p]...), r.stored(int32(p))))
		}
		r.checkObjects()
	})
}

func TestWriter_SettlingEndsWithTheHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hedging{lag: time.Second, wrong: make(chan error, 1)}
		r := newRig(t, func(c *writer.Config) {
			h.bucket = c.Bucket.(*bucket)
			c.Bucket = h
		})
		name := id.Submission{Session: 1, N: 1}.Bundle()
		_, ok := r.Settling(name)
		require.False(t, ok)
		r.accepted(r.add(plain(0, 100)))
		over, ok := r.Settling(name)
		require.True(t, ok, "committed, and its memory not handed over yet")
		require.Nil(t, r.sink.get(name))
		<-over
		require.NotNil(t, r.sink.get(name))
		_, ok = r.Settling(name)
		require.False(t, ok)
	})
}

func TestWriter_MemoryIsBoundedAndGivenBack(t *testing.T) {
	const budget = 4*testSlab + 2000 // and what is noted of four bundles
	synctest.Test(t, func(t *testing.T) {
		pool, err := slab.NewPool(slab.Config{Budget: budget, SlabBytes: testSlab, Poison: true}, nil)
		require.NoError(t, err)
		r := newRig(t, func(c *writer.Config) {
			c.Pool = pool
			c.FlushBytes = 60 << 10
			c.Sink = nil
		})
		r.bucket.before = delay(1, 20*time.Second)
		var taken, given []*writer.Produce
		for range 4 {
			taken = append(taken, r.add(plain(0, 60<<10)))
			synctest.Wait()
		}
		// Everything is put; the first is stalled, so nothing is committed and nothing is given back.
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		refused := r.Add(ctx, []writer.Batch{plain(0, 60<<10)})
		require.ErrorIs(t, r.result(refused).Err, writer.ErrNotTaken)
		require.LessOrEqual(t, pool.Held(), int64(budget))
		began := time.Now()
		for range 8 {
			given = append(given, r.add(plain(0, 60<<10)))
		}
		require.InDelta(t, 19*time.Second, time.Since(began), float64(time.Second), "intake waits, and goes on")
		for _, p := range append(taken, given...) {
			r.accepted(p)
		}
	})
}

// TestWriter_ABatchAboveTheWriteBuffersGoesAlone: a batch larger than all write buffers waits until nothing else is held,
// and then goes its way; its own book-keeping, and that of the request's other batches, is not in its way.
func TestWriter_ABatchAboveTheWriteBuffersGoesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool, err := slab.NewPool(slab.Config{Budget: 4 * testSlab, SlabBytes: testSlab, Poison: true}, nil)
		require.NoError(t, err)
		r := newRig(t, func(c *writer.Config) { c.Pool = pool })
		first := r.add(plain(0, 60<<10))
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		p := r.Add(ctx, []writer.Batch{plain(1, 100), plain(0, 5*testSlab), plain(2, 100)})
		r.accepted(first)
		for _, result := range p.Wait(ctx) {
			require.NoError(t, result.Err)
		}
		r.checkMemory(0)
	})
}

func TestWriter_ASmallBundleHoldsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := plain(0, 300)
		r.accepted(r.add(b))
		synctest.Wait()
		c := r.sink.get(id.Submission{Session: 1, N: 1}.Bundle())
		require.Less(t, c.Held(), int64(500), "not a whole slab")
		require.Zero(t, r.pool.Held(), "it counts against the sink's budget now")
		r.checkMemory(0)
	})
}

func TestWriter_SmallBatchesOfAPartitionLieTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		var sent [3][]writer.Batch
		var batches []writer.Batch
		for i := range 3000 {
			b := plain(int32(i%3), 300)
			sent[i%3] = append(sent[i%3], b)
			batches = append(batches, b)
		}
		r.Add(t.Context(), batches).Wait(t.Context())
		synctest.Wait()
		for p := range sent {
			require.True(t, bytes.Equal(want(sent[p]...), r.stored(int32(p))))
			r.checkMemory(int32(p))
			x := r.extents(int32(p))
			require.Len(t, x, 1)
			parts, _ := r.sink.get(x[0].Bundle).Slices(nil, x[0].Position, x[0].Length)
			require.Len(t, parts, 1)
		}
	})
}

func TestCommitted_Slices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		b := []writer.Batch{plain(0, 5000), plain(1, 6000), plain(0, 7000)}
		r.Add(t.Context(), b).Wait(t.Context())
		synctest.Wait()
		c := r.sink.get(id.Submission{Session: 1, N: 1}.Bundle())
		x := r.extents(0)[0]
		whole, ok := c.Slices(nil, x.Position, x.Length)
		require.True(t, ok)
		all := bytes.Join(whole, nil)
		for _, cut := range [][2]uint32{{0, 12000}, {4999, 2}, {5000, 7000}, {100, 50}, {11999, 1}} {
			got, ok := c.Slices(nil, x.Position+cut[0], cut[1])
			require.True(t, ok)
			require.True(t, bytes.Equal(all[cut[0]:cut[0]+cut[1]], bytes.Join(got, nil)))
		}
		_, ok = c.Slices(nil, x.Position-1, 10)
		require.False(t, ok, "the bundle's header is not there")
		prefix := [][]byte{{1}}
		got, ok := c.Slices(prefix, c.Size-10, 10)
		require.False(t, ok)
		require.Equal(t, prefix, got)
		require.Panics(t, func() {
			other := &writer.Committed{}
			other.Release()
		})
	})
}

// TestWriter_ManyAtOnce drives many connections against a store that fails now and then, under the race detector.
func TestWriter_ManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &hedging{lag: 100 * time.Millisecond, wrong: make(chan error, 1000)}
		pool, err := slab.NewPool(slab.Config{Budget: 12 * testSlab, SlabBytes: testSlab, Poison: true}, nil)
		require.NoError(t, err)
		r := newRig(t, func(c *writer.Config) {
			c.Pool = pool
			c.FlushBytes = 100 << 10
			h.bucket = c.Bucket.(*bucket)
			c.Bucket = h
		})
		r.bucket.before = func(ctx context.Context, k int) error {
			if k%7 == 0 {
				return objstore.ErrThrottled
			}
			return delay(k, time.Duration(k%5)*30*time.Millisecond)(ctx, k)
		}
		r.bucket.after = func(_ context.Context, k int) error {
			if k%5 == 0 {
				return objstore.ErrOutcomeUnknown
			}
			return nil
		}
		const producers, each = 16, 40
		sent := make([][]writer.Batch, producers)
		var all sync.WaitGroup
		for p := range producers {
			all.Go(func() {
				var waiting []*writer.Produce
				for i := range each {
					b := batchOf(int32(p), 100+(i*p*131)%9000, 1, int64(p), int32(i))
					sent[p] = append(sent[p], b)
					waiting = append(waiting, r.add(b))
					if len(waiting) == 5 {
						if got := r.result(waiting[0]); got.Err != nil || got.Outcome != commit.Accepted {
							t.Errorf("producer %d: %+v", p, got)
						}
						waiting = waiting[1:]
					}
					if i%8 == 0 {
						r.sink.releaseAll()
					}
				}
				for _, p := range waiting {
					r.result(p)
				}
			})
		}
		all.Wait()
		<-time.After(time.Second)
		require.Empty(t, h.wrong)
		for p := range sent {
			require.True(t, bytes.Equal(want(sent[p]...), r.stored(int32(p))))
		}
		r.checkObjects()
	})
}

// TestWriter_Stuck: a writer whose bundles do not get to the object store says so, until they do.
func TestWriter_Stuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		require.False(t, r.Stuck())
		r.accepted(r.add(plain(0, 100)))
		time.Sleep(time.Minute)
		require.False(t, r.Stuck(), "nothing is on its way")
		r.bucket.before = delay(2, 30*time.Second)
		p := r.add(plain(0, 100))
		time.Sleep(2900 * time.Millisecond)
		require.False(t, r.Stuck())
		time.Sleep(time.Second)
		require.True(t, r.Stuck())
		r.accepted(p)
		require.False(t, r.Stuck())
	})
}
