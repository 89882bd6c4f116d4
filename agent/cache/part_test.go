package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore/bundle"
)

var partition = id.TopicPartition{Topic: id.Topic{1}}

// long makes a section of batches of about that many bytes with one record each, whose timestamps are their offsets.
func long(base int64, batches, size int) cachetest.Section {
	s := cachetest.Section{Partition: partition, Base: base}
	like := cachetest.Batch(bytes.Repeat([]byte("v"), size), 0)
	for i := range batches {
		s.Batches = append(s.Batches, cachetest.Stamped(like, base+int64(i)))
	}
	return s
}

// ranges notes the ranges that are asked for.
type ranges struct {
	mu   sync.Mutex
	list []string
	all  int64
}

func (r *ranges) note(offset, length int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, fmt.Sprintf("%d+%d", offset>>20, length>>20))
	if offset >= 0 {
		r.all += length
	}
}

func (r *ranges) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := r.list
	r.list = nil
	return list
}

func setupRanges(tb testing.TB, cfg Config) (*Cache, *bucket, *ranges) {
	tb.Helper()
	c, b := setup(tb, cfg)
	r := &ranges{}
	b.asked = r.note
	return c, b, r
}

// readOn reads an extent from an offset to its end as a sequential reader does, who knows where it is, and gives what
// it read.
func readOn(t *testing.T, c *Cache, e *extent.Extent, offset int64, step int) []byte {
	t.Helper()
	out := make([]byte, 0, e.Length)
	for p := (Part{Extent: e, Offset: offset, Bytes: step}); ; {
		b, err := c.ReadPart(t.Context(), p, CatchUp)
		require.NoError(t, err)
		for _, piece := range b.Append(nil, 0, b.Size()) {
			out = append(out, piece...)
		}
		b.Batches(func(batch Batch) bool { p.Offset = batch.Last + 1; return true })
		p.Position = b.Position + uint32(b.Size())
		more := b.More
		b.Release()
		if !more {
			return out
		}
	}
}

func patched(s cachetest.Section, from int64) []byte {
	out := make([]byte, 0, len(s.Batches)*len(s.Batches[0]))
	for i, raw := range s.Batches {
		if at := s.Base + int64(i); at >= from {
			out = append(out, cachetest.Patched(raw, at)...)
		}
	}
	return out
}

func TestCache_PartReadsTheUnitsItNeeds(t *testing.T) {
	c, b, asked := setupRanges(t, Config{})
	s := long(1000, 160, 100_000) // 16 MB
	e := cachetest.Compact(t, b, 7, 1<<30, s)[0][0]

	p := Part{Extent: &e, Offset: 1100, Bytes: 1 << 20}
	_, ok, err := c.ResidentPart(p)
	require.NoError(t, err)
	require.False(t, ok)
	got, err := c.ReadPart(t.Context(), p, CatchUp)
	require.NoError(t, err)
	require.Equal(t, patched(s, 1100)[:got.Size()], all(got))
	require.Equal(t, 10, got.Size()/100_000, "whole batches within the bytes wanted")
	require.True(t, got.More)
	require.Equal(t, []string{"-1+-1", "8+4"}, asked.take(), "the seek table, and the unit")
	got.Release()

	// From there on, and again, nothing but further units is read; the last batch of a unit lies in two.
	require.True(t, bytes.Equal(patched(s, 1100), readOn(t, c, &e, 1100, 1<<20)))
	require.Equal(t, []string{"12+4"}, asked.take())
	require.True(t, bytes.Equal(patched(s, 1000), readOn(t, c, &e, 1000, 1<<20)))
	require.Equal(t, []string{"0+4", "4+4"}, asked.take())
	for _, offset := range []int64{1000, 1001, 1041, 1042, 1100, 1159} {
		got, ok, err = c.ResidentPart(Part{Extent: &e, Offset: offset})
		require.NoError(t, err)
		require.True(t, ok)
		require.True(t, bytes.Equal(cachetest.Patched(s.Batches[offset-1000], offset), all(got)), "one batch at least")
		got.Release()
	}
	require.Empty(t, asked.take())
	require.Equal(t, int32(1), c.store.mu.units[unitKey{bundle: 7, part: true}].refs.Load(), "all is given back")
}

// Without a seek table the way to an offset begins with the extent, and is known from then on as long as units are kept.
func TestCache_PartWithoutSeekTable(t *testing.T) {
	c, b, asked := setupRanges(t, Config{})
	s := long(0, 100, 100_000)
	plain := cachetest.NewBundle(3)
	var placed []cachetest.Placed
	for i, raw := range s.Batches {
		placed = append(placed, plain.Add(cachetest.Patched(raw, int64(i))))
	}
	plain.Store(t, b)
	e := plain.Extent(0, placed...)
	e.Kind = extent.Absolute
	p := Part{Extent: &e, Offset: 90, Bytes: 1}
	got, err := c.ReadPart(t.Context(), p, CatchUp)
	require.NoError(t, err)
	require.True(t, bytes.Equal(cachetest.Patched(s.Batches[90], 90), all(got)))
	got.Release()
	require.Equal(t, []string{"-1+-1", "0+4", "4+4", "8+4"}, asked.take())
	c.store.drop(c.store.mu.units[unitKey{bundle: 3, part: true}])
	got, ok, err := c.ResidentPart(p)
	require.NoError(t, err)
	require.True(t, ok, "the unit remembers where its batches are")
	got.Release()
}

// Offsets that compaction left without records: before the first batch, between batches, and behind the last.
func TestCache_PartWithHoles(t *testing.T) {
	c, b := setup(t, Config{})
	plain := cachetest.NewBundle(3)
	raw := cachetest.Batch(value(10), 1, 2)
	first, second := plain.Add(cachetest.Patched(raw, 10)), plain.Add(cachetest.Patched(raw, 20))
	plain.Store(t, b)
	e := plain.Extent(0, first, second)
	e.Kind, e.Base, e.Last = extent.Absolute, 5, 30
	for offset, want := range map[int64][]byte{
		5: append(bytes.Clone(first.Raw), second.Raw...), 11: append(bytes.Clone(first.Raw), second.Raw...),
		12: second.Raw, 21: second.Raw, 22: nil, 30: nil,
	} {
		got, err := c.ReadPart(t.Context(), Part{Extent: &e, Offset: offset, Bytes: 1 << 20}, CatchUp)
		require.NoError(t, err)
		require.Equal(t, want, all(got), "offset %d", offset)
		require.False(t, got.More)
		got.Release()
	}
}

func TestCache_PartCorrupt(t *testing.T) {
	c, b, _ := setupRanges(t, Config{})
	s := long(0, 100, 100_000)
	e := cachetest.Compact(t, b, 7, 1<<30, s)[0][0]
	healthy := false
	b.body = func(_ int32, r io.ReadCloser) io.ReadCloser {
		raw, _ := io.ReadAll(r)
		if !healthy && len(raw) > 1<<20 {
			raw = bytes.Clone(raw)
			raw[1<<20] ^= 1
		}
		return io.NopCloser(bytes.NewReader(raw))
	}
	got, err := c.ReadPart(t.Context(), Part{Extent: &e, Offset: 0, Bytes: 900_000}, CatchUp)
	require.NoError(t, err, "batches before are not affected")
	got.Release()
	_, err = c.ReadPart(t.Context(), Part{Extent: &e, Offset: 0, Bytes: 2 << 20}, CatchUp)
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, bundle.Key("", 7), corrupt.Key)
	require.Equal(t, int64(1<<20)/100_000*int64(len(s.Batches[0]))+bundle.HeaderSize, corrupt.Position)
	healthy = true
	require.True(t, bytes.Equal(patched(s, 0), readOn(t, c, &e, 0, 1<<20)), "corrupt bytes are not kept")

	short := e
	short.Last -= 3
	_, err = c.ReadPart(t.Context(), Part{Extent: &short, Offset: 99, Bytes: 1}, CatchUp)
	require.ErrorAs(t, err, &corrupt, "batches of other offsets than the extent's")
}

func TestCache_SeekTime(t *testing.T) {
	c, b, asked := setupRanges(t, Config{})
	s := long(0, 160, 100_000)
	exts := cachetest.Compact(t, b, 7, 12<<20, s)[0]
	require.Len(t, exts, 2)
	for _, ts := range []int64{0, 50, 110, 125} {
		at, err := c.SeekTime(t.Context(), &exts[0], ts, CatchUp)
		require.NoError(t, err)
		lead := int64(exts[0].Position) + ts*int64(len(s.Batches[0])) - int64(at)
		require.GreaterOrEqual(t, lead, int64(0), "not behind the record")
		require.LessOrEqual(t, lead, int64(2<<20), "nor far before it")
	}
	at, err := c.SeekTime(t.Context(), &exts[0], 159, CatchUp)
	require.NoError(t, err)
	require.Equal(t, exts[0].Position+exts[0].Length, at, "none in this extent")
	require.Equal(t, []string{"-1+-1"}, asked.take(), "one look at the table")
	require.NoError(t, b.Delete(t.Context(), []string{bundle.Key("", 7)}))
	another, err := New(Config{Bucket: b, Key: cachetest.Key})
	require.NoError(t, err)
	defer another.Close()
	_, err = another.SeekTime(t.Context(), &exts[0], 1, CatchUp)
	require.ErrorIs(t, err, ErrGone)
}

// A sequential reader's read-ahead is few long GETs, whose units are readable one by one.
func TestCache_AheadMergesGets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b, asked := setupRanges(t, Config{CatchUp: Bounds{Bytes: 128 << 20}})
		b.body = func(_ int32, r io.ReadCloser) io.ReadCloser { return &slow{ReadCloser: r} }
		s := long(0, 400, 100_000) // 40 MB
		exts := cachetest.Compact(t, b, 7, 16<<20, s)[0]
		next := []Next{{Extents: exts, Bytes: 32 << 20}}
		require.Equal(t, []State{Absent}, c.Ahead(1, next))
		require.Equal(t, []State{Coming}, c.Ahead(1, next))
		began := time.Now()
		got, err := c.ReadPart(t.Context(), Part{Extent: &exts[0], Bytes: 1 << 20, Reader: 1}, CatchUp)
		require.NoError(t, err)
		got.Release()
		require.Equal(t, 16*unitPause, time.Since(began), "as soon as the first unit is there")
		require.Equal(t, []State{Resident}, c.Ahead(1, next))
		synctest.Wait()
		require.Equal(t, []string{"0+32"}, asked.take())
		pass(time.Second)

		// No more while more than half is still to be used.
		next[0].Position = exts[0].Position + 15<<20
		c.Ahead(1, next)
		require.Empty(t, asked.take())
		next[0] = Next{Extents: exts[1:], Position: exts[1].Position + 1<<20, Bytes: 32 << 20}
		c.Ahead(1, next)
		synctest.Wait()
		require.Equal(t, []string{"32+8"}, asked.take())
		pass(time.Second)
	})
}

const unitPause = time.Millisecond // of a quarter of a MiB

// slow bodies take a while.
type slow struct{ io.ReadCloser }

func (s *slow) Read(p []byte) (int, error) {
	pass(unitPause)
	n, err := io.ReadFull(s.ReadCloser, p[:min(len(p), 256<<10)])
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// Units that nobody waits for come no faster than those before are used, within the bound; a GET whose reader has left
// is given up.
func TestCache_AheadWaitsForItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b, asked := setupRanges(t, Config{CatchUp: Bounds{Bytes: 48 << 20}})
		s := long(0, 240, 100_000)
		exts := cachetest.Compact(t, b, 7, 1<<30, s)[0]
		c.Ahead(1, []Next{{Extents: exts, Bytes: 24 << 20}})
		synctest.Wait()
		kept := func() (n int64) {
			c.store.mu.Lock()
			defer c.store.mu.Unlock()
			return c.store.mu.bytes[CatchUp]
		}
		require.Equal(t, int64(16<<20), kept(), "half of what the class keeps")
		at := Part{Extent: &exts[0], Bytes: 4 << 20, Reader: 1}
		got, err := c.ReadPart(t.Context(), at, CatchUp)
		require.NoError(t, err)
		got.Release()
		synctest.Wait()
		require.Equal(t, int64(20<<20), kept(), "the next unit comes")
		require.Equal(t, []string{"0+24"}, asked.take())

		pass(maxStill)
		synctest.Wait()
		require.Empty(t, c.mu.flights, "given up")
		require.Zero(t, c.lanes[CatchUp].usedBytes())
		require.True(t, bytes.Equal(patched(s, 0), readOn(t, c, &exts[0], 0, 1<<20)), "which harms nobody")
	})
}

// A GET that stands still is the oldest, which alone may exceed the bound: it makes way for those that wait for memory.
func TestCache_StandingStillHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b, _ := setupRanges(t, Config{CatchUp: Bounds{Bytes: 48 << 20}})
		exts := cachetest.Compact(t, b, 7, 1<<30, long(0, 240, 100_000))[0]
		c.Ahead(1, []Next{{Extents: exts, Bytes: 24 << 20}})
		synctest.Wait()
		b.body = func(_ int32, r io.ReadCloser) io.ReadCloser { return &slow{r} }
		began := time.Now()
		var readers sync.WaitGroup
		for n := range 2 {
			bundle := cachetest.NewBundle(id.Bundle(n + 1))
			e := bundle.Extent(0, bundle.Add(cachetest.Batch(value(12<<20), 1)))
			bundle.Store(t, b)
			readers.Go(func() {
				got, err := c.ReadPart(t.Context(), Part{Extent: &e, Reader: uint64(n + 2)}, CatchUp)
				if err != nil {
					t.Error(err)
					return
				}
				got.Release()
			})
		}
		readers.Wait()
		require.Less(t, time.Since(began), time.Second)
		require.Zero(t, c.lanes[CatchUp].usedBytes())
	})
}

// A merged GET that breaks off goes on where it was, and attempts count anew.
func TestCache_RunGoesOnAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b, asked := setupRanges(t, Config{CatchUp: Bounds{Bytes: 128 << 20}})
		s := long(0, 300, 100_000)
		e := cachetest.Compact(t, b, 7, 1<<30, s)[0][0]
		b.body = func(_ int32, r io.ReadCloser) io.ReadCloser {
			return &cut{r, 5 << 20}
		}
		c.Ahead(0, []Next{{Extents: []extent.Extent{e}, Bytes: 32 << 20}})
		require.True(t, bytes.Equal(patched(s, 0), readOn(t, c, &e, 0, 4<<20)))
		list := asked.take()
		require.Equal(t, []string{"0+32", "4+28", "8+24"}, list[:3])
		require.Len(t, list, 7)

		// One that makes no progress fails for who waits.
		b.body = func(int32, io.ReadCloser) io.ReadCloser { return io.NopCloser(errReader{io.ErrUnexpectedEOF}) }
		c.store.drop(c.store.mu.units[unitKey{bundle: 7, part: true}])
		_, err := c.ReadPart(t.Context(), Part{Extent: &e}, CatchUp)
		require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		require.Len(t, asked.take(), 4)
	})
}

// cut breaks a body off.
type cut struct {
	io.ReadCloser
	left int
}

func (c *cut) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := c.ReadCloser.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// Close ends GETs that stand still.
func TestCache_CloseEndsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b, _ := setupRanges(t, Config{CatchUp: Bounds{Bytes: 48 << 20}})
		exts := cachetest.Compact(t, b, 7, 1<<30, long(0, 240, 100_000))[0]
		c.Ahead(1, []Next{{Extents: exts, Bytes: 24 << 20}})
		synctest.Wait()
		began := time.Now()
		c.Close()
		require.Zero(t, time.Since(began))
		_, err := c.ReadPart(context.Background(), Part{Extent: &exts[0], Offset: 200}, CatchUp)
		require.ErrorIs(t, err, ErrClosed)
	})
}

func TestUnit_NotesStretchesAndMarks(t *testing.T) {
	u := &unit{}
	note := func(position uint32, size int, base int64) { u.note(100, position, batch{size: size, base: base}) }
	note(100, 50, 1)
	note(300, 100, 4)
	note(200, 100, 3)
	require.Equal(t, []stretch{{100, 150}, {200, 400}}, u.mu.checked)
	note(150, 50, 2)
	require.Equal(t, []stretch{{100, 400}}, u.mu.checked)
	require.True(t, u.checked(150, 250))
	require.False(t, u.checked(150, 251))
	require.False(t, u.checked(400, 1))
	note(100+markEvery, 10, 9)
	u.note(100+markEvery+10, 100+markEvery+10, batch{size: 10, base: 1}) // of the next extent
	require.True(t, slices.IsSortedFunc(u.mu.marks, func(a, b mark) int { return int(a.position) - int(b.position) }))
	e := extent.Extent{Position: 100, Length: markEvery + 10}
	require.Equal(t, uint32(100+markEvery), u.mark(&e, 20))
	require.Equal(t, uint32(100), u.mark(&e, 8))
	require.Zero(t, u.mark(&e, 0))
	next := extent.Extent{Position: 100 + markEvery + 10, Length: 100}
	require.Equal(t, next.Position, u.mark(&next, 1))
}
