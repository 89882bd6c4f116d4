package bundle_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/durable"
	"github.com/freshet-io/freshet/objstore/fault"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// placed gives a batch with a true base offset and a max timestamp.
func placed(seed uint64, base, timestamp int64, records int32, payload int) []byte {
	p := batch(seed, records, payload)
	binary.BigEndian.PutUint64(p, uint64(base))
	binary.BigEndian.PutUint64(p[35:], uint64(timestamp))
	checksum(p)
	return p
}

func newWriter(t testing.TB, b objstore.Bucket) *bundle.Writer {
	t.Helper()
	return newWideWriter(t, b, 1)
}

// newWideWriter sends some parts side by side.
func newWideWriter(t testing.TB, b objstore.Bucket, inFlight int) *bundle.Writer {
	t.Helper()
	w, err := bundle.NewWriter(bundle.WriterConfig{
		Bucket: b, Prefix: "vc/", Name: name, PartBytes: objstore.MinPart, InFlight: inFlight,
	})
	require.NoError(t, err)
	return w
}

var key = bundle.Key("vc/", name.Bundle())

// fill writes batches of about that size to some partitions until the bundle has the bytes, and gives the batches.
func fill(ctx context.Context, t testing.TB, w *bundle.Writer, batchBytes, sectionBytes, size int) (all [][]byte, err error) {
	t.Helper()
	for section := int32(0); w.Size() < int64(size); section++ {
		for offset, end := int64(100), w.Size()+int64(sectionBytes); w.Size() < min(end, int64(size)); offset += 3 {
			b := append(placed(uint64(offset), offset, 1_000+offset%50, 3, 100), make([]byte, batchBytes-161)...)
			binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
			checksum(b)
			before := w.Size()
			position, err := w.Batch(ctx, partition(1, section), b)
			if err != nil {
				return all, err
			}
			require.Less(t, int64(position), before)
			all = append(all, b)
		}
	}
	return all, nil
}

func TestWriter_SmallBundleIsOnePut(t *testing.T) {
	b := meter.New(mem.New(), nil)
	w := newWriter(t, b)
	all, err := fill(t.Context(), t, w, 1000, 10_000, 100_000)
	require.NoError(t, err)
	size := w.Size()
	n, err := w.Finish(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, size, n)
	require.EqualValues(t, 1, b.Counts()[objstore.OpPut].Requests)
	require.Zero(t, b.Counts()[objstore.OpCreateUpload].Requests)
	requireBundle(t, b, all)
	w.Abort(t.Context())
	_, err = w.Finish(t.Context())
	require.Error(t, err)
}

func TestWriter_LargeBundleIsUploadedInParts(t *testing.T) {
	for i, size := range []int{objstore.MinPart, objstore.MinPart + 1000, 2*objstore.MinPart - 100, 3*objstore.MinPart + 7} {
		b := meter.New(mem.New(), nil)
		w := newWideWriter(t, b, 1+i)
		all, err := fill(t.Context(), t, w, 100_000, 2_500_000, size)
		require.NoError(t, err)
		n, err := w.Finish(t.Context())
		require.NoError(t, err)
		requireBundle(t, b, all)
		counts := b.Counts()
		require.EqualValues(t, n, counts[objstore.OpPutPart].Bytes)
		require.Equal(t, int64(n-1)/objstore.MinPart+1, counts[objstore.OpPutPart].Requests, "parts of the same size")
		require.EqualValues(t, 1, counts[objstore.OpCompleteUpload].Requests)
		require.Zero(t, counts[objstore.OpPut].Requests)
	}
}

// requireBundle checks the object and that it holds exactly these batches.
func requireBundle(t *testing.T, b objstore.Bucket, batches [][]byte) *bundle.Description {
	t.Helper()
	data, err := objstoretest.Get(t.Context(), b, key, 0, -1)
	require.NoError(t, err)
	d, err := bundle.Inspect(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, name, d.Name)
	require.Equal(t, bundle.OfJob, d.Kind)
	want := bytes.Join(batches, nil)
	require.True(t, bytes.Equal(want, data[bundle.HeaderSize:bundle.HeaderSize+len(want)]))
	info, err := b.Head(t.Context(), key)
	require.NoError(t, err)
	require.Equal(t, info.CRC32C, d.CRC32C)
	return d
}

func TestWriter_RefusesDisorder(t *testing.T) {
	w := newWriter(t, mem.New())
	put := func(p id.TopicPartition, base int64) error {
		_, err := w.Batch(t.Context(), p, placed(1, base, 5, 10, 100))
		return err
	}
	require.NoError(t, put(partition(1, 1), 100))
	require.ErrorIs(t, put(partition(1, 1), 109), bundle.ErrOrder)
	require.ErrorIs(t, put(partition(1, 0), 200), bundle.ErrOrder)
	require.NoError(t, put(partition(1, 1), 500))
	require.NoError(t, put(partition(2, 0), 0))
	require.ErrorIs(t, put(partition(1, 1), 600), bundle.ErrOrder)
	_, err := w.Batch(t.Context(), partition(2, 0), make([]byte, 60))
	require.ErrorIs(t, err, bundle.ErrShortBatch)
	n, err := w.Finish(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 24+3*161+2*32+40, n)
	_, err = bundle.NewWriter(bundle.WriterConfig{PartBytes: objstore.MinPart - 1})
	require.Error(t, err)
}

// TestWriter_EveryFailure lets each request of an upload fail for good, and the context end at each: nothing shows under
// the key, nothing is left in the store once the writer is aborted, and no goroutine stays.
func TestWriter_EveryFailure(t *testing.T) {
	for _, request := range []string{"create_upload nth=1", "put_part nth=1", "put_part nth=2", "put_part nth=3", "complete_upload nth=1"} {
		for _, effect := range []string{"fail", "stall"} {
			synctest.Test(t, func(t *testing.T) {
				inner := mem.New()
				b := fault.New(inner, 1)
				rule := b.MustAdd(request + " " + effect)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w := newWideWriter(t, b, 3)
				done := make(chan error, 1)
				go func() {
					_, err := fill(ctx, t, w, 200_000, 4_000_000, 2*objstore.MinPart+100_000)
					if err == nil {
						_, err = w.Finish(ctx)
					}
					done <- err
				}()
				synctest.Wait()
				if effect == "stall" {
					cancel()
				}
				require.Error(t, <-done, rule.String())
				w.Abort(ctx)
				require.NotZero(t, rule.Hits(), rule.String())
				_, err := inner.Head(t.Context(), key)
				require.ErrorIs(t, err, objstore.ErrNotFound)
				left, err := inner.Uploads(t.Context(), "", "", 10)
				require.NoError(t, err)
				require.Empty(t, left)
			})
		}
	}
}

func TestWriter_LostAnswersHarmNothing(t *testing.T) {
	for i, rule := range []string{
		"put_part every=2 outcome-unknown-after", "put_part every=2 throttle", "complete_upload nth=1 outcome-unknown-after",
		"create_upload nth=1 outcome-unknown-before", "put_part nth=1 stall-after",
	} {
		synctest.Test(t, func(t *testing.T) {
			b := fault.New(mem.New(), 1)
			b.MustAdd(rule)
			w := newWideWriter(t, b, 1+i)
			all, err := fill(t.Context(), t, w, 100_000, 3_000_000, 2*objstore.MinPart+100_000)
			require.NoError(t, err)
			_, err = w.Finish(t.Context())
			require.NoError(t, err)
			b.Clear()
			requireBundle(t, b, all)
		})
	}
}

// slowParts is a bucket whose parts take a second each, and which notes how many are under way at most.
type slowParts struct {
	objstore.Bucket
	under, most atomic.Int32
}

func (b *slowParts) Create(ctx context.Context, key string) (objstore.Upload, error) {
	u, err := b.Bucket.Create(ctx, key)
	return &slowUpload{u, b}, err
}

type slowUpload struct {
	objstore.Upload
	bucket *slowParts
}

func (u *slowUpload) Part(ctx context.Context, number int, offset int64, body objstore.Body) error {
	n := u.bucket.under.Add(1)
	defer u.bucket.under.Add(-1)
	for most := u.bucket.most.Load(); n > most && !u.bucket.most.CompareAndSwap(most, n); most = u.bucket.most.Load() {
	}
	time.Sleep(time.Second) // sleeps: in a synctest bubble
	return u.Upload.Part(ctx, number, offset, body)
}

// TestWriter_PartsSideBySide: as many parts are under way as are allowed, and no more, and a batch larger than several
// parts is cut.
func TestWriter_PartsSideBySide(t *testing.T) {
	for _, inFlight := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			b := &slowParts{Bucket: mem.New()}
			w := newWideWriter(t, b, inFlight)
			began := time.Now()
			large, err := fill(t.Context(), t, w, 4*objstore.MinPart+1, 1, 4*objstore.MinPart)
			require.NoError(t, err)
			_, err = w.Batch(t.Context(), partition(1, 0), placed(1, 1000, 1, 1, 0))
			require.NoError(t, err)
			_, err = w.Finish(t.Context())
			require.NoError(t, err)
			require.EqualValues(t, inFlight, b.most.Load())
			require.Equal(t, time.Duration((5+inFlight-1)/inFlight)*time.Second, time.Since(began))
			requireBundle(t, b, append(large, placed(1, 1000, 1, 1, 0)))
		})
	}
	_, err := bundle.NewWriter(bundle.WriterConfig{InFlight: 1000})
	require.Error(t, err)
}

func TestWriter_KeyTakenByOthers(t *testing.T) {
	for _, size := range []int{1000, 6 << 20} {
		b := mem.New()
		require.NoError(t, b.Put(t.Context(), key, objstore.NewBody([]byte("foreign"))))
		w := newWriter(t, b)
		_, err := fill(t.Context(), t, w, 500, 1<<20, size)
		require.NoError(t, err)
		_, err = w.Finish(t.Context())
		require.ErrorIs(t, err, durable.ErrForeign)
		w.Abort(t.Context())
		left, err := b.Uploads(t.Context(), "", "", 10)
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

// small2 is a bundle with two short sections and one of several chunks.
func small2(t testing.TB) []byte {
	t.Helper()
	b := mem.New()
	w := newWriter(t, b)
	put := func(p id.TopicPartition, p2 []byte) {
		_, err := w.Batch(t.Context(), p, p2)
		require.NoError(t, err)
	}
	put(partition(1, 0), placed(1, 5, 1_000, 3, 10))
	put(partition(1, 0), placed(2, 8, 900, 1, 0))
	for i := range int64(3) { // zeros, so that the golden file is small
		big := placed(1, 1000+i*10, 2_000-i, 10, 0)
		big = append(big, make([]byte, 1<<20)...)
		binary.BigEndian.PutUint32(big[8:], uint32(len(big)-12))
		checksum(big)
		put(partition(1, 7), big)
	}
	put(partition(2, 5), placed(3, 1<<40, -1, 100, 40))
	_, err := w.Finish(t.Context())
	require.NoError(t, err)
	data, err := objstoretest.Get(t.Context(), b, key, 0, -1)
	require.NoError(t, err)
	return data
}

func TestInspect_OfAJob(t *testing.T) {
	data := small2(t)
	d, err := bundle.Inspect(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Len(t, d.Sections, 3)
	require.Len(t, d.Seek, 3)
	require.Equal(t, bundle.SeekDescription{
		Position: d.Sections[1].Position, Length: 61 + 1<<20, First: 1000, MaxTimestamp: 2000,
	}, d.Seek[0])
	var out strings.Builder
	require.NoError(t, d.Print(&out))
	require.Contains(t, out.String(), "bundle 42/7  of job")
	require.Contains(t, out.String(), "offset 1099511627776  batch")
	require.Contains(t, out.String(), "length 1048637  first_offset 1020  max_timestamp 1998")

	rng := objstoretest.Bytes(1, 8)
	for at := 0; at < len(data); at += 200_001 {
		data[at] ^= 1 << (rng[at%8] & 7)
		_, err := bundle.Inspect(bytes.NewReader(data), int64(len(data)))
		require.ErrorIs(t, err, bundle.ErrMalformed, "byte %d", at)
		data[at] ^= 1 << (rng[at%8] & 7)
	}
	for at := len(data) - 3*32 - 3*24 - 40; at < len(data); at++ { // all but the batches is checked first
		data[at] ^= 1 << (rng[at%8] & 7)
		_, err := bundle.Inspect(bytes.NewReader(data), int64(len(data)))
		require.ErrorIs(t, err, bundle.ErrMalformed, "byte %d", at)
		data[at] ^= 1 << (rng[at%8] & 7)
	}
	for n := 1; n < 300; n++ {
		_, err := bundle.Inspect(bytes.NewReader(data[:len(data)-n]), int64(len(data)-n))
		require.ErrorIs(t, err, bundle.ErrMalformed)
	}
	d, err = bundle.Inspect(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, name, d.Name)
	require.Len(t, d.Sections, 3)
	_, err = bundle.Inspect(io.NewSectionReader(bytes.NewReader(data), 0, 100), int64(len(data)))
	require.ErrorIs(t, err, bundle.ErrMalformed)
}

// BenchmarkWriter copies batches into parts that a bucket throws away.
func BenchmarkWriter(b *testing.B) {
	for _, size := range []int{1_000, 16_000, 100_000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p := placed(1, 0, 1, 10, size-61)
			b.SetBytes(64 << 20)
			b.ReportAllocs()
			for b.Loop() {
				w, err := bundle.NewWriter(bundle.WriterConfig{Bucket: discard{}, Name: name, PartBytes: 16 << 20})
				require.NoError(b, err)
				for i := range int64(64 << 20 / size) {
					binary.BigEndian.PutUint64(p, uint64(i*10))
					_, _ = w.Batch(b.Context(), partition(1, 1), p)
				}
				_, err = w.Finish(b.Context())
				require.NoError(b, err)
			}
		})
	}
}

// discard takes uploads and keeps nothing.
type discard struct{ objstore.Bucket }

func (d discard) Create(context.Context, string) (objstore.Upload, error) { return d, nil }

func (discard) Part(context.Context, int, int64, objstore.Body) error { return nil }

func (discard) Complete(context.Context) error { return nil }

func (discard) Abort(context.Context) error { return nil }
