package bundle_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/mem"
	"github.com/freshet-io/freshet/objstore/meter"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

// laid is a batch as it was written.
type laid struct {
	position, length uint32
	base, last       int64
	timestamp        int64
}

// seekable writes sections of that many batches and gives the batches of each.
func seekable(t testing.TB, b objstore.Bucket, rng *rand.Rand, batches ...int) [][]laid {
	t.Helper()
	w := newWriter(t, b)
	sections := make([][]laid, len(batches))
	noise := objstoretest.Bytes(1, 300_000)
	for i, n := range batches {
		base := rng.Int64N(1000)
		for range n {
			p := placed(1, base, rng.Int64N(10_000), 1+rng.Int32N(50), 0)
			p = append(p, noise[:100+rng.IntN(len(noise)-100)]...)
			size := uint32(len(p) - 12)
			p[8], p[9], p[10], p[11] = byte(size>>24), byte(size>>16), byte(size>>8), byte(size)
			checksum(p)
			position, err := w.Batch(t.Context(), partition(1, int32(i)), p)
			require.NoError(t, err)
			records := int64(p[26]) + 1
			timestamp := int64(p[41])<<8 | int64(p[42])
			sections[i] = append(sections[i], laid{position, uint32(len(p)), base, base + records - 1, timestamp})
			base += records + rng.Int64N(3)
		}
	}
	_, err := w.Finish(t.Context())
	require.NoError(t, err)
	return sections
}

// TestSeek_AgainstTheBatches asks for offsets and times in extents that begin and end anywhere.
func TestSeek_AgainstTheBatches(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := meter.New(mem.New(), nil)
		sections := seekable(t, b, rng, 3, 40, 1, 25, 8, 2)
		s, err := bundle.ReadSeek(t.Context(), b, key)
		require.NoError(t, err)
		require.EqualValues(t, 1, b.Counts()[objstore.OpGet].Requests)
		require.Greater(t, s.Len(), 6)
		for range 300 {
			batches := sections[rng.IntN(len(sections))]
			from := rng.IntN(len(batches))
			batches = batches[from : from+1+rng.IntN(len(batches)-from)]
			requireOffset(t, s, batches, batches[0].base+rng.Int64N(batches[len(batches)-1].last-batches[0].base+2))
			requireTime(t, s, batches, rng.Int64N(10_500), false)
		}
		for _, batches := range sections { // the whole section, and the ends of it
			requireOffset(t, s, batches, batches[0].base-1)
			requireOffset(t, s, batches, batches[len(batches)-1].last+1)
			for ts := int64(0); ts < 10_500; ts += 100 {
				requireTime(t, s, batches, ts, true)
			}
		}
	}
}

func span(batches []laid) (position, length uint32) {
	first, last := batches[0], batches[len(batches)-1]
	return first.position, last.position + last.length - first.position
}

// requireOffset: all before the position ends below the offset, and not much more than a chunk is read in vain.
func requireOffset(t *testing.T, s *bundle.Seek, batches []laid, offset int64) {
	t.Helper()
	position, length := span(batches)
	at := s.Offset(position, length, offset)
	i := slices.IndexFunc(batches, func(b laid) bool { return b.position == at })
	require.GreaterOrEqual(t, i, 0, "a batch boundary of the extent")
	for _, b := range batches[:i] {
		require.Less(t, b.last, offset)
	}
	for _, b := range batches[i:] {
		if b.last >= offset {
			require.Less(t, b.position-at, uint32(bundle.SeekBytes+400_000))
			break
		}
	}
}

// requireTime: nothing before the position is as late, and of a whole section not much more than a chunk is read in vain.
func requireTime(t *testing.T, s *bundle.Seek, batches []laid, ts int64, whole bool) {
	t.Helper()
	position, length := span(batches)
	at := s.Time(position, length, ts)
	require.LessOrEqual(t, at, position+length)
	boundary := at == position+length
	for _, b := range batches {
		boundary = boundary || b.position == at
		if b.timestamp >= ts {
			require.GreaterOrEqual(t, b.position, at)
			if whole { // else the chunk that the extent begins in may be as late by what lies before the extent
				require.LessOrEqual(t, int64(b.position)-int64(at), int64(bundle.SeekBytes+400_000))
			}
			break
		}
	}
	require.True(t, boundary, "a batch boundary, or the end")
}

func TestSeek_OtherBundles(t *testing.T) {
	b := meter.New(mem.New(), nil)
	one, sections := small(t) // of version 1
	require.NoError(t, b.Put(t.Context(), "one", objstore.NewBody(one)))
	s, err := bundle.ReadSeek(t.Context(), b, "one")
	require.NoError(t, err)
	require.Zero(t, s.Len())
	require.Equal(t, sections[1].Position, s.Offset(sections[1].Position, sections[1].Length, 1<<40))
	require.Equal(t, sections[1].Position, s.Time(sections[1].Position, sections[1].Length, 1<<40))

	_, err = bundle.ReadSeek(t.Context(), b, "none")
	require.ErrorIs(t, err, objstore.ErrNotFound)
	for _, junk := range []string{"x", string(one[:len(one)-1]), string(make([]byte, 100))} {
		require.NoError(t, b.Delete(t.Context(), []string{"junk"}))
		require.NoError(t, b.Put(t.Context(), "junk", objstore.NewBody([]byte(junk))))
		_, err = bundle.ReadSeek(t.Context(), b, "junk")
		require.ErrorIs(t, err, bundle.ErrMalformed)
	}
}

// TestReadSeek_LongTable has a table that is longer than what is asked for first, as no bundle of 1 GiB has.
func TestReadSeek_LongTable(t *testing.T) {
	data := longTable(3000)
	b := meter.New(mem.New(), nil)
	require.NoError(t, b.Put(t.Context(), "long", objstore.NewBody(data)))
	s, err := bundle.ReadSeek(t.Context(), b, "long")
	require.NoError(t, err)
	require.Equal(t, 3000, s.Len())
	require.EqualValues(t, 2, b.Counts()[objstore.OpGet].Requests)
	require.EqualValues(t, 24+61*2999, s.Offset(24, 61*3000, 1<<40))

	data[len(data)-1000] ^= 1
	require.NoError(t, b.Put(t.Context(), "flipped", objstore.NewBody(data)))
	_, err = bundle.ReadSeek(t.Context(), b, "flipped")
	require.ErrorIs(t, err, bundle.ErrMalformed)
	require.NoError(t, b.Put(t.Context(), "cut", objstore.NewBody(data[len(data)-70_000:])))
	_, err = bundle.ReadSeek(t.Context(), b, "cut")
	require.ErrorIs(t, err, bundle.ErrMalformed)
}

func longTable(n int) []byte { return bundle.LongTable(n, placed(1, 0, 5, 1, 0)) }

// FuzzParseSeek: whatever is parsed without error answers within the extent asked about, and nothing panics.
func FuzzParseSeek(f *testing.F) {
	f.Add(longTable(3), uint32(24), uint32(150), int64(1))
	one := small2(f)
	f.Add(one[len(one)-500:], uint32(24+132), uint32(3<<20), int64(1500))
	f.Fuzz(func(t *testing.T, tail []byte, position, length uint32, at int64) {
		s, need, err := bundle.ParseSeek(tail)
		if err != nil {
			require.ErrorIs(t, err, bundle.ErrMalformed)
			return
		}
		if s == nil {
			require.Greater(t, need, int64(len(tail)))
			return
		}
		if uint64(position)+uint64(length) > bundle.MaxSize {
			return
		}
		for _, got := range []uint32{s.Offset(position, length, at), s.Time(position, length, at)} {
			require.GreaterOrEqual(t, got, position)
			require.LessOrEqual(t, got, position+length)
		}
	})
}
