package cache

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/agent/cache/cachetest"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/mem"
)

// bucket counts GETs and lets tests fail or stall them.
type bucket struct {
	objstore.Bucket
	gets   atomic.Int32
	asked  func(offset, length int64)
	before func(ctx context.Context, get int32) error
	body   func(get int32, r io.ReadCloser) io.ReadCloser
}

func (b *bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	n := b.gets.Add(1)
	if b.asked != nil {
		b.asked(offset, length)
	}
	if b.before != nil {
		if err := b.before(ctx, n); err != nil {
			return nil, err
		}
	}
	r, err := b.Bucket.Get(ctx, key, offset, length)
	if err == nil && b.body != nil {
		r = b.body(n, r)
	}
	return r, err
}

func setup(tb testing.TB, cfg Config) (*Cache, *bucket) {
	tb.Helper()
	b := &bucket{Bucket: mem.New()}
	cfg.Bucket, cfg.Key = b, cachetest.Key
	c, err := New(cfg)
	require.NoError(tb, err)
	tb.Cleanup(c.Close)
	return c, b
}

// pass lets time go by in the bubble.
func pass(d time.Duration) { <-time.After(d) }

func all(b *Bytes) []byte { return slices.Concat(b.Append(nil, 0, b.Size())...) }

func value(n int) []byte { return bytes.Repeat([]byte("v"), n) }

func TestCache_ReadPatchesByExtent(t *testing.T) {
	c, b := setup(t, Config{})
	bundle := cachetest.NewBundle(1)
	p0, dup, p1, p2 := bundle.Add(cachetest.Batch(value(10), 1, 2, 3)), bundle.Add(cachetest.Batch(value(11), 4)),
		bundle.Add(cachetest.Batch(value(12), 5, 6)), bundle.Add(cachetest.Batch(value(300_000), 7))
	bundle.Store(t, b)

	// The second batch was a duplicate: it lies between two extents and has no offset.
	first, second := bundle.Extent(100, p0), bundle.Extent(103, p1, p2)
	_ = dup
	got, err := c.Read(t.Context(), &second, Live)
	require.NoError(t, err)
	require.Equal(t, append(cachetest.Patched(p1.Raw, 103), cachetest.Patched(p2.Raw, 105)...), all(got))
	var batches []Batch
	got.Batches(func(b Batch) bool { batches = append(batches, b); return true })
	require.Equal(t, []Batch{
		{Position: 0, Size: len(p1.Raw), Base: 103, Last: 104, MaxTimestamp: 6},
		{Position: len(p1.Raw), Size: len(p2.Raw), Base: 105, Last: 105, MaxTimestamp: 7},
	}, batches)
	require.Equal(t, cachetest.Patched(p2.Raw, 105), []byte(got.Copy(batches[1])), "a batch over two chunks")
	got.Release()

	got, err = c.Read(t.Context(), &first, Live)
	require.NoError(t, err)
	require.Equal(t, cachetest.Patched(p0.Raw, 100), all(got))
	got.Release()
	require.Equal(t, int32(1), b.gets.Load(), "one GET for the bundle")

	// The same batches by another cut of extents are the same bytes.
	last := bundle.Extent(105, p2)
	got, ok, err := c.Resident(&last)
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, cachetest.Patched(p2.Raw, 105), all(got))
	got.Release()
}

func TestCache_ConcurrentReadersShareOneGet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := setup(t, Config{})
		b.before = func(ctx context.Context, _ int32) error { pass(50 * time.Millisecond); return nil }
		bundle := cachetest.NewBundle(1)
		var exts []extent.Extent
		var raws [][]byte
		for i := range 50 {
			p := bundle.Add(cachetest.Batch(value(1000+i), int64(i)))
			exts, raws = append(exts, bundle.Extent(int64(i*10), p)), append(raws, p.Raw)
		}
		bundle.Store(t, b)
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				i %= len(exts)
				ctx := t.Context()
				if i%10 == 3 { // some leave early
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, 10*time.Millisecond)
					defer cancel()
				}
				got, err := c.Read(ctx, &exts[i], Live)
				if err != nil {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					return
				}
				require.Equal(t, cachetest.Patched(raws[i], int64(i*10)), all(got))
				got.Release()
			})
		}
		wg.Wait()
		require.Equal(t, int32(1), b.gets.Load())
		c.mu.Lock()
		defer c.mu.Unlock()
		require.Equal(t, int32(1), c.store.mu.units[unitKey{bundle: 1}].refs.Load(), "only the cache's reference is left")
	})
}

type own struct {
	bytes    []byte
	position uint32
	refs     atomic.Int32
}

func (o *own) Slices(dst [][]byte, position, length uint32) ([][]byte, bool) {
	if position < o.position || int(position-o.position+length) > len(o.bytes) {
		return dst, false
	}
	return append(dst, o.bytes[position-o.position:][:length]), true
}
func (o *own) Pieces(yield func(uint32, []byte)) { yield(o.position, o.bytes) }
func (o *own) Held() int64                       { return int64(len(o.bytes)) }
func (o *own) Retain()                           { o.refs.Add(1) }
func (o *own) Release()                          { o.refs.Add(-1) }

func TestCache_OwnBundles(t *testing.T) {
	c, b := setup(t, Config{Live: Bounds{Bytes: 10_000, Gets: 1}})
	bundle := cachetest.NewBundle(1)
	late, p := bundle.Add(cachetest.Batch(value(10), 1)), bundle.Add(cachetest.Batch(value(1000), 2))
	bundle.Store(t, b)
	o := &own{bytes: cachetest.Patched(p.Raw, 5), position: p.Position}
	c.Put(1, o)
	require.Equal(t, int32(1), o.refs.Load())
	e := bundle.Extent(5, p)
	got, err := c.Read(t.Context(), &e, Live)
	require.NoError(t, err)
	require.Equal(t, o.bytes, all(got))
	require.Zero(t, b.gets.Load())

	// Other bundles push it out; the reader's bytes stay until it releases them.
	for i := range 20 {
		c.Put(id.Bundle(i+2), &own{bytes: make([]byte, 1000)})
	}
	require.Equal(t, int32(1), o.refs.Load())
	got.Release()
	require.Zero(t, o.refs.Load())

	// A batch that was committed later than its bundle is not among the own bytes: it is read.
	c.Put(1, o)
	e = bundle.Extent(50, late)
	got, err = c.Read(t.Context(), &e, Live)
	require.NoError(t, err)
	require.Equal(t, cachetest.Patched(late.Raw, 50), all(got))
	got.Release()
	require.Zero(t, o.refs.Load())
}

func TestCache_Faults(t *testing.T) {
	for name, tt := range map[string]struct {
		before func(context.Context, int32) error
		body   func(int32, io.ReadCloser) io.ReadCloser
		gets   int32
		check  func(*testing.T, error)
	}{
		"throttled, then fine": {
			before: func(_ context.Context, n int32) error { return map[bool]error{n < 3: objstore.ErrThrottled}[true] },
			gets:   3,
		},
		"stalled, then fine": {
			before: func(ctx context.Context, n int32) error {
				if n > 1 {
					return nil
				}
				<-ctx.Done()
				return ctx.Err()
			},
			gets: 2,
		},
		"cut off, then fine": {
			body: func(n int32, r io.ReadCloser) io.ReadCloser {
				if n > 1 {
					return r
				}
				return io.NopCloser(io.MultiReader(io.LimitReader(r, 100), errReader{io.ErrUnexpectedEOF}))
			},
			gets: 2,
		},
		"failing for good": {
			before: func(context.Context, int32) error { return objstore.ErrThrottled },
			gets:   4,
			check:  func(t *testing.T, err error) { t.Helper(); require.ErrorIs(t, err, objstore.ErrThrottled) },
		},
		"gone": {
			before: func(context.Context, int32) error { return objstore.ErrNotFound },
			gets:   1,
			check:  func(t *testing.T, err error) { t.Helper(); require.ErrorIs(t, err, ErrGone) },
		},
		"too short": {
			body: func(_ int32, r io.ReadCloser) io.ReadCloser { return io.NopCloser(io.LimitReader(r, 100)) },
			gets: 1,
			check: func(t *testing.T, err error) {
				t.Helper()
				var c *CorruptError
				require.ErrorAs(t, err, &c)
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, b := setup(t, Config{})
				bundle := cachetest.NewBundle(1)
				p := bundle.Add(cachetest.Batch(value(1000), 1))
				bundle.Store(t, b)
				b.before, b.body = tt.before, tt.body
				e := bundle.Extent(0, p)
				got, err := c.Read(t.Context(), &e, Live)
				require.Equal(t, tt.gets, b.gets.Load())
				if tt.check != nil {
					tt.check(t, err)
					return
				}
				require.NoError(t, err)
				require.Equal(t, cachetest.Patched(p.Raw, 0), all(got))
				got.Release()
			})
		})
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestCache_Corrupt(t *testing.T) {
	c, b := setup(t, Config{})
	bundle := cachetest.NewBundle(1)
	good, bad := bundle.Add(cachetest.Batch(value(100), 1)), bundle.Add(cachetest.Batch(value(100), 2))
	bundle.Store(t, b)
	healthy := false
	b.body = func(_ int32, r io.ReadCloser) io.ReadCloser {
		raw, _ := io.ReadAll(r)
		if !healthy {
			raw = bytes.Clone(raw)
			raw[bad.Position+80] ^= 1
		}
		return io.NopCloser(bytes.NewReader(raw))
	}
	e := bundle.Extent(10, bad)
	_, err := c.Read(t.Context(), &e, Live)
	var corrupt *CorruptError
	require.ErrorAs(t, err, &corrupt)
	require.Equal(t, cachetest.Key(1), corrupt.Key)
	require.Equal(t, int64(bad.Position), corrupt.Position)
	require.Equal(t, int64(10), corrupt.Offset)
	require.NotEqual(t, corrupt.Stored, corrupt.Computed)

	// The batch beside it is not affected, and corrupt bytes are not kept.
	other := bundle.Extent(9, good)
	got, err := c.Read(t.Context(), &other, Live)
	require.NoError(t, err)
	got.Release()
	_, _, err = c.Resident(&e)
	require.Error(t, err)
	healthy = true
	got, err = c.Read(t.Context(), &e, Live)
	require.NoError(t, err)
	require.Equal(t, cachetest.Patched(bad.Raw, 10), all(got))
	got.Release()

	// An extent that does not fit the bytes is as bad.
	wrong := bundle.Extent(10, bad)
	wrong.Last += 3
	_, err = c.Read(t.Context(), &wrong, Live)
	require.ErrorAs(t, err, &corrupt)
}

func TestCache_GiantBatchAndCompactedObjects(t *testing.T) {
	c, b := setup(t, Config{Live: Bounds{Bytes: 8 << 20, Gets: 2}})
	bundle := cachetest.NewBundle(1)
	small, giant, after := bundle.Add(cachetest.Batch(value(100), 1)), bundle.Add(cachetest.Batch(value(WholeUnit+3), 2)),
		bundle.Add(cachetest.Batch(value(100), 3, 4))
	bundle.Store(t, b)
	for base, p := range map[int64]cachetest.Placed{7: small, 8: giant, 9: after} {
		e := bundle.Extent(base, p)
		got, err := c.Read(t.Context(), &e, Live)
		require.NoError(t, err)
		require.True(t, bytes.Equal(cachetest.Patched(p.Raw, base), all(got)))
		got.Release()
	}

	compacted := cachetest.NewBundle(2)
	p := compacted.Add(cachetest.Patched(cachetest.Batch(value(100), 1, 2), 20))
	compacted.Store(t, b)
	e := compacted.Extent(20, p)
	e.Kind, e.Last = extent.Absolute, 25 // compaction took the last records
	got, err := c.Read(t.Context(), &e, CatchUp)
	require.NoError(t, err)
	require.Equal(t, p.Raw, all(got))
	got.Release()
}

func TestCache_CatchUpDoesNotDisplaceLive(t *testing.T) {
	c, b := setup(t, Config{Live: Bounds{Bytes: 1 << 20, Gets: 2}, CatchUp: Bounds{Bytes: 64 << 10, Gets: 2}})
	var live extent.Extent
	for i := range 30 {
		bundle := cachetest.NewBundle(id.Bundle(i + 1))
		p := bundle.Add(cachetest.Batch(value(10_000), 1))
		bundle.Store(t, b)
		e, class := bundle.Extent(0, p), CatchUp
		if i == 0 {
			live, class = e, Live
		}
		got, err := c.Read(t.Context(), &e, class)
		require.NoError(t, err)
		got.Release()
	}
	got, ok, err := c.Resident(&live)
	require.NoError(t, err)
	require.True(t, ok)
	got.Release()
	c.store.mu.Lock()
	defer c.store.mu.Unlock()
	require.LessOrEqual(t, c.store.mu.bytes[CatchUp], int64(64<<10))
}

func TestCache_Close(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, b := setup(t, Config{})
		b.before = func(ctx context.Context, _ int32) error { <-ctx.Done(); return ctx.Err() }
		e := extent.Extent{Bundle: 1, Length: 100}
		errs := make(chan error)
		go func() {
			_, err := c.Read(t.Context(), &e, Live)
			errs <- err
		}()
		synctest.Wait()
		c.Close()
		require.ErrorIs(t, <-errs, ErrClosed)
		_, err := c.Read(t.Context(), &e, Live)
		require.True(t, errors.Is(err, ErrClosed))
	})
}

func BenchmarkCache_Hit(b *testing.B) {
	c, bk := setup(b, Config{})
	bundle := cachetest.NewBundle(1)
	var placed []cachetest.Placed
	for range 10 {
		placed = append(placed, bundle.Add(cachetest.Batch(value(100_000), 1, 2)))
	}
	bundle.Store(b, bk)
	e := bundle.Extent(0, placed...)
	b.SetBytes(int64(e.Length))
	b.ReportAllocs()
	for b.Loop() {
		got, err := c.Read(b.Context(), &e, Live)
		if err != nil {
			b.Fatal(err)
		}
		got.Release()
	}
}

func BenchmarkCache_VerifyAndPatch(b *testing.B) {
	bundle := cachetest.NewBundle(1)
	var placed []cachetest.Placed
	for range 10 {
		placed = append(placed, bundle.Add(cachetest.Batch(value(100_000), 1, 2)))
	}
	e := bundle.Extent(0, placed...)
	p := pieces{bundle.Bytes()[24:]}
	b.SetBytes(int64(e.Length))
	for b.Loop() {
		if err := verify(&e, p); err != nil {
			b.Fatal(err)
		}
		patch(&e, p)
	}
}

func TestCache_PinnedCountsWhatReadersHoldOfDroppedUnits(t *testing.T) {
	c, b := setup(t, Config{Live: Bounds{Bytes: 10_000, Gets: 1}})
	bundle := cachetest.NewBundle(1)
	p := bundle.Add(cachetest.Batch(value(1000), 1))
	bundle.Store(t, b)
	e := bundle.Extent(0, p)
	got, err := c.Read(t.Context(), &e, Live)
	require.NoError(t, err)
	require.Zero(t, c.Pinned())
	for i := range 20 {
		c.Put(id.Bundle(i+2), &own{bytes: make([]byte, 1000)})
	}
	require.Greater(t, c.Pinned(), int64(1000))
	require.Less(t, c.Pinned(), int64(2000), "others that were dropped are gone")
	got.Release()
	require.Zero(t, c.Pinned())
}
