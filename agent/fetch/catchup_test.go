package fetch

import (
	"bytes"
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache"
	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/agent/view"
	"github.com/freshet-io/freshet/agent/view/viewtest"
	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// history runs f over partitions with nothing in them yet, and a store as slow as an object store.
func history(t *testing.T, memory int64, partitions int32, f func(e *env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := newEnvOver(t, Config{}, view.Config{}, cache.Config{CatchUp: cache.Bounds{Bytes: memory}}, partitions)
		e.t = t
		e.bucket.get = func(_ string, r io.ReadCloser) (io.ReadCloser, error) {
			pass(30 * time.Millisecond)
			return &paced{ReadCloser: r}, nil
		}
		f(e)
	})
}

// paced gives 90 MiB/s, in steps of a MiB.
type paced struct {
	io.ReadCloser
	given int
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if p.given += n; p.given >= 1<<20 {
		pass(time.Duration(p.given) * time.Second / (90 << 20))
		p.given = 0
	}
	return n, err
}

// compacted makes objects that each hold the next records of all partitions, as compaction of the first level leaves
// them: sections of so many batches of size bytes. It gives the bytes in all.
func (e *env) compacted(objects int, partitions int32, batches, size int) (total int64) {
	like := batch(size, 0)
	for range objects {
		e.bundles++
		sections := make([]cachetest.Section, partitions)
		for p := range sections {
			var base int64
			e.owner.Change(tp(int32(p)), func(q *viewtest.Partition) { base = q.HighWatermark })
			sections[p] = cachetest.Section{Partition: tp(int32(p)), Base: base}
			for i := range batches {
				sections[p].Batches = append(sections[p].Batches, cachetest.Stamped(like, base+int64(i)))
			}
		}
		for p, exts := range cachetest.Compact(e.t, e.bucket, id.Bundle(e.bundles), 16<<20, sections...) {
			e.owner.Append(tp(int32(p)), exts...)
			for i := range exts {
				total += int64(exts[i].Length)
			}
		}
	}
	return total
}

// consumer reads partitions from their beginning to their end as a fetch session does: what brought records goes behind
// the others.
type consumer struct {
	env     *env
	reader  uint64
	parts   []Partition
	end     int64
	pause   time.Duration // between fetches
	bytes   int64
	fetches int
	ctx     context.Context // ends it before
}

func (e *env) consumer(reader uint64, end int64, partitions ...int32) *consumer {
	c := &consumer{env: e, reader: reader, end: end, pause: time.Millisecond, ctx: e.t.Context()}
	for _, p := range partitions {
		c.parts = append(c.parts, part(p, 0))
	}
	return c
}

func (c *consumer) run() {
	t := c.env.t
	for len(c.parts) > 0 {
		req := request(c.parts...)
		req.Reader = c.reader
		resp := c.env.fetcher.Fetch(c.ctx, req)
		if c.ctx.Err() != nil {
			resp.Release()
			return
		}
		c.fetches++
		for i := range resp.Results {
			if err := errOf(resp, i); err != nil {
				t.Errorf("partition %d: %v", req.Partitions[i].ID.Partition, err)
			}
			c.take(&resp.Results[i], &req.Partitions[i])
		}
		c.bytes += int64(resp.Bytes)
		resp.Release()
		if t.Failed() {
			return
		}
		pass(c.pause)
	}
}

func (c *consumer) take(r *Result, p *Partition) {
	next := p.Offset
	for b, err := range kafkaproto.Batches(records(r)) {
		if err != nil || b.BaseOffset() != next {
			c.env.t.Errorf("partition %d: offset %d instead of %d, %v", p.ID.Partition, b.BaseOffset(), next, err)
		}
		next = b.LastOffset() + 1
	}
	if next == p.Offset {
		return
	}
	c.parts = slices.DeleteFunc(slices.Clone(c.parts), func(q Partition) bool { return q.ID == p.ID })
	if next < c.end {
		c.parts = append(c.parts, Partition{ID: p.ID, Offset: next, MaxBytes: p.MaxBytes})
	}
}

func upTo(n int32) (list []int32) {
	for p := range n {
		list = append(list, p)
	}
	return list
}

// Three groups, one behind the other, read the same compacted history: together they take no more than 1.2 GETs for each unit of it,
// though nothing of it stays in memory from one to the next. Half of the memory is for reading ahead, ten MiB and more for
// each: with two units or less, GETs side by side, which exceed it by a unit each, would drop units that nobody has used.
func TestCatchUp_GroupsReadLongRanges(t *testing.T) {
	history(t, 64<<20, 2, func(e *env) {
		t := e.t
		const batches, objects = 160, 3 // 160 batches of 100 KB: extents of 16 MB
		total := e.compacted(objects, 2, batches, 100_000)
		e.bucket.gets.Store(0)
		var groups sync.WaitGroup
		for group := range uint64(3) {
			c := e.consumer(group+1, batches*objects, upTo(2)...)
			c.pause = 20 * time.Millisecond
			groups.Go(func() {
				pass(time.Duration(group) * time.Second)
				c.run()
				require.Equal(t, total, c.bytes)
			})
		}
		began := time.Now()
		groups.Wait()
		gets := int64(e.bucket.gets.Load())
		t.Logf("%d MiB three times in %s: %d GETs, units %d", total>>20, time.Since(began), gets, total/cache.PartUnit)
		require.LessOrEqual(t, gets, total*12/10/cache.PartUnit)
	})
}

// One reader alone takes a GET for each half of its read-ahead, about 16 MiB.
func TestCatchUp_OneReaderTakesLongGets(t *testing.T) {
	history(t, 128<<20, 1, func(e *env) {
		t := e.t
		total := e.compacted(1, 1, 480, 100_000)
		e.bucket.gets.Store(0)
		c := e.consumer(1, 480, 0)
		began := time.Now()
		c.run()
		require.Equal(t, total, c.bytes)
		require.LessOrEqual(t, int64(e.bucket.gets.Load()), total/(12<<20)+4)
		body := time.Duration(total) * time.Second / (90 << 20)
		require.LessOrEqual(t, time.Since(began), body+50*time.Millisecond, "as fast as one body comes")
	})
}

// A consumer of a thousand partitions reads bundles that are not compacted: each is read once, for all of them.
func TestCatchUp_ThousandPartitionsInTheSameBundles(t *testing.T) {
	history(t, 12<<20, 1000, func(e *env) {
		t := e.t
		const bundles = 30
		e.fresh(bundles, 1000, 1000)
		e.bucket.gets.Store(0)
		e.consumer(1, bundles, upTo(1000)...).run()
		require.LessOrEqual(t, int(e.bucket.gets.Load()), bundles*12/10)
	})
}

// The consumers of a group, each with its own partitions of the same bundles, keep together by what is in memory.
func TestCatchUp_GroupSharesFreshBundles(t *testing.T) {
	history(t, 12<<20, 8, func(e *env) {
		t := e.t
		const bundles = 100
		e.fresh(bundles, 8, 60_000)
		e.bucket.gets.Store(0)
		var group sync.WaitGroup
		for i := range int32(4) {
			c := e.consumer(uint64(i+1), bundles, 2*i, 2*i+1)
			for p := range c.parts {
				c.parts[p].MaxBytes = 256 << 10 // four batches
			}
			group.Go(c.run)
		}
		group.Wait()
		t.Logf("%d GETs of %d bundles", e.bucket.gets.Load(), bundles)
		require.LessOrEqual(t, int(e.bucket.gets.Load()), bundles*12/10)
	})
}

// fresh makes bundles as agents write them, with one batch of each partition, and more partitions' data than windows at
// the live edge hold: their beginning is history.
func (e *env) fresh(bundles int, partitions int32, size int) {
	for i := range bundles {
		e.bundles++
		b := cachetest.NewBundle(id.Bundle(e.bundles))
		var exts []extent.Extent
		raw := batch(size, int64(i))
		for range partitions {
			exts = append(exts, b.Extent(int64(i), b.Add(raw)))
		}
		b.Store(e.t, e.bucket)
		for p := range exts {
			e.owner.Append(tp(int32(p)), exts[p])
		}
	}
}

// A reader that lags in many partitions does not slow down one that reads a single one.
func TestCatchUp_OneLaggardStarvesNobody(t *testing.T) {
	alone := time.Duration(0)
	for _, crowd := range []bool{false, true} {
		history(t, 24<<20, 100, func(e *env) {
			t := e.t
			e.compacted(2, 100, 10, 25_000) // a quarter of a MB of each partition twice
			ctx, cancel := context.WithCancel(t.Context())
			var others sync.WaitGroup
			if crowd {
				c := e.consumer(100, 20, upTo(99)...)
				c.ctx = ctx
				others.Go(c.run)
				pass(200 * time.Millisecond)
			}
			began := time.Now()
			c := e.consumer(1, 20, 99)
			c.run()
			took := time.Since(began)
			if !crowd {
				alone = took
			}
			t.Logf("crowd %t: %s", crowd, took)
			require.LessOrEqual(t, took, 3*alone+100*time.Millisecond)
			cancel()
			others.Wait()
		})
	}
}

// Finding a record by its time takes one or two units, and the seek table.
func TestOffsets_LongExtents(t *testing.T) {
	history(t, 128<<20, 1, func(e *env) {
		t := e.t
		e.compacted(1, 1, 320, 100_000) // two extents of 16 MB
		o := e.offsets(e.t)
		for _, ts := range []int64{317, 3, 200, 161} {
			e.bucket.gets.Store(0)
			got := o.List(t.Context(), []OffsetWant{{tp(0), ts}}, false)
			require.Equal(t, OffsetResult{Offset: ts, Timestamp: ts}, got[0])
			require.LessOrEqual(t, e.bucket.gets.Load(), int32(3))
		}
		got := o.List(e.t.Context(), []OffsetWant{{tp(0), TimestampMax}}, false)
		require.Equal(e.t, OffsetResult{Offset: 319, Timestamp: 319}, got[0])
	})
}

// What was compacted is read on the account of catch-up, however near to the end it is, and a fetch from the middle
// reads the unit that it needs.
func TestCatchUp_FromTheMiddle(t *testing.T) {
	history(t, 128<<20, 1, func(e *env) {
		t := e.t
		e.compacted(1, 1, 160, 100_000)
		e.bucket.gets.Store(0)
		resp := e.fetch(t, request(part(0, 100)))
		require.Equal(t, int64(100), kafkaproto.RecordBatch(records(&resp.Results[0])).BaseOffset())
		require.Equal(t, 10, resp.Bytes/100_000)
		require.Equal(t, int32(2), e.bucket.gets.Load(), "seek table and unit")
		require.Zero(t, e.cache.Pinned())
		live := batch(10, 1)
		e.produce(t, tp(0), live)
		synctest.Wait()
		resp = e.fetch(t, request(part(0, 160)))
		require.True(t, bytes.Equal(cachetest.Patched(live, 160), records(&resp.Results[0])))
	})
}

// A consumer that goes on in the middle of long extents, where it committed, makes progress in all of its partitions.
func TestCatchUp_FromTheMiddleOfAll(t *testing.T) {
	history(t, 128<<20, 4, func(e *env) {
		t := e.t
		e.compacted(2, 4, 160, 100_000)
		c := e.consumer(1, 320, upTo(4)...)
		for i := range c.parts {
			c.parts[i].Offset = 100
		}
		for begun := make(map[id.TopicPartition]bool); len(begun) < 4; {
			for _, p := range c.parts {
				require.Less(t, p.Offset, int64(300), "%d of 4 have begun", len(begun))
			}
			req := request(c.parts...)
			req.Reader = 1
			resp := e.fetch(t, req)
			for i := range resp.Results {
				if resp.Results[i].Size > 0 {
					begun[req.Partitions[i].ID] = true
				}
				c.take(&resp.Results[i], &req.Partitions[i])
			}
			pass(c.pause)
		}
	})
}

// Answers that nobody takes hold what they count, also of long extents, and shrink to copies of first batches.
func TestCatchUp_UnsentAnswersOfLongExtents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnvOver(t, Config{UnsentBytes: 2 << 20}, view.Config{}, cache.Config{}, 1)
		e.t = t
		e.compacted(1, 1, 160, 100_000)
		var held []*Response
		for range 4 {
			held = append(held, e.fetcher.Fetch(t.Context(), request(part(0, 20))))
		}
		require.Greater(t, held[1].Bytes, 900_000)
		require.LessOrEqual(t, held[3].Bytes, 110_000, "the first batch")
		require.Empty(t, held[3].held, "copied")
		require.LessOrEqual(t, e.fetcher.unsent.held.Load(), int64(4<<20))
		for _, r := range held {
			r.Release()
		}
		require.Zero(t, e.fetcher.unsent.held.Load())
	})
}
