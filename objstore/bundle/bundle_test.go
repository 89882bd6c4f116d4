package bundle_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/freshet-io/freshet/internal/bytetable"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/objstoretest"
)

// batch makes a record batch whose header is right; its records are noise.
func batch(seed uint64, records int32, payload int) []byte {
	p := make([]byte, 61, 61+payload)
	p = append(p, objstoretest.Bytes(seed, payload)...)
	binary.BigEndian.PutUint32(p[8:], uint32(len(p)-12))
	p[16] = 2
	binary.BigEndian.PutUint16(p[21:], 4) // zstd
	binary.BigEndian.PutUint32(p[23:], uint32(records-1))
	binary.BigEndian.PutUint64(p[35:], 1_700_000_000_000)
	binary.BigEndian.PutUint64(p[43:], seed)
	binary.BigEndian.PutUint32(p[57:], uint32(records))
	checksum(p)
	return p
}

// checksum sets the checksum of a batch that was changed.
func checksum(p []byte) {
	binary.BigEndian.PutUint32(p[17:], crc32.Checksum(p[21:], objstore.Castagnoli))
}

func partition(topic byte, n int32) id.TopicPartition {
	return id.TopicPartition{Topic: id.Topic{topic}, Partition: n}
}

var name = id.Submission{Session: 42, N: 7}

func small(t *testing.T) ([]byte, []bundle.Section) {
	t.Helper()
	var e bundle.Encoder
	e.Reset(name)
	require.EqualValues(t, bundle.HeaderSize, e.Section(partition(1, 0)))
	require.NoError(t, e.Batch(batch(1, 3, 10)))
	require.NoError(t, e.Batch(batch(2, 1, 0)))
	e.Section(partition(2, 9))
	e.Section(partition(2, 5))
	require.NoError(t, e.Batch(batch(3, 100, 40)))
	body, sections := e.Finish()
	return bytes.Join(body.Buffers, nil), sections
}

func TestEncoder_RoundTrip(t *testing.T) {
	data, sections := small(t)
	require.Len(t, data, 24+3*61+50+2*32+40)
	d, err := bundle.Inspect(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, name, d.Name)
	require.Equal(t, crc32.Checksum(data, objstore.Castagnoli), d.CRC32C)
	require.Len(t, d.Sections, 2, "the empty section leaves no trace")
	for i := range sections {
		require.Equal(t, sections[i], d.Sections[i].Section)
	}
	require.Equal(t, bundle.Section{Partition: partition(2, 5), Position: 24 + 132, Length: 101, Batches: 1}, sections[1])
	require.EqualValues(t, 100, d.Sections[1].Contents[0].Records)
	require.EqualValues(t, 3, d.Sections[1].Contents[0].ProducerID)
}

func TestEncoder_ChecksumsAndBuffersOfSplitBatches(t *testing.T) {
	var e bundle.Encoder
	for round := range 2 { // the encoder is used again
		e.Reset(name)
		e.Section(partition(1, 1))
		slab := make([]byte, 0, 1<<20)
		for i, payload := range []int{0, 100, 5_000, 100_000, 300_000} {
			start := len(slab)
			slab = append(slab, batch(uint64(i), 5, payload)...)
			b := slab[start:]
			cut := []int{61, 5, 19, 50_000, 300_000}[i]
			require.NoError(t, e.Batch(b[:cut], nil, b[cut:]))
		}
		e.Section(partition(1, 2))
		require.NoError(t, e.Batch(batch(9, 5, 9_000)))
		body, _ := e.Finish()
		require.Len(t, body.Buffers, 4, "header, the slab in one piece, the last batch, footer")
		require.Same(t, &slab[0], &body.Buffers[1][0], "record bytes are not copied")
		require.NoError(t, body.CheckSize())
		data := bytes.Join(body.Buffers, nil)
		require.Equal(t, crc32.Checksum(data, objstore.Castagnoli), body.CRC32C, "round %d", round)
		_, err := bundle.Inspect(bytes.NewReader(data), body.Size)
		require.NoError(t, err)
	}
}

func TestEncoder_DoesNotJoinSeparateMemory(t *testing.T) {
	var e bundle.Encoder
	e.Reset(name)
	e.Section(partition(1, 1))
	slab := append(batch(1, 1, 500), batch(2, 1, 500)...)
	require.NoError(t, e.Batch(slab[:561:561])) // its capacity hides what follows
	require.NoError(t, e.Batch(slab[561:]))
	body, _ := e.Finish()
	require.Len(t, body.Buffers, 4)
}

func TestEncoder_Bounds(t *testing.T) {
	var e bundle.Encoder
	e.Reset(name)
	e.Section(partition(1, 1))
	require.ErrorIs(t, e.Batch(make([]byte, 60)), bundle.ErrShortBatch)
	big := make([]byte, 1<<30) // never touched, so it costs address space alone
	for range 3 {
		require.NoError(t, e.Batch(big))
	}
	require.ErrorIs(t, e.Batch(big), bundle.ErrTooLarge)
}

// internal/cli prints this bundle.
func TestEncoder_Golden(t *testing.T) {
	data, _ := small(t)
	path := filepath.Join("testdata", "agent.hex")
	if *bytetable.Update {
		require.NoError(t, os.WriteFile(path, []byte(hex.Dump(data)), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), hex.Dump(data), "a changed layout raises generation.Number")
}

func TestInspect_EveryFlippedBitIsFound(t *testing.T) {
	data, _ := small(t)
	for i := range data {
		for bit := range 8 {
			data[i] ^= 1 << bit
			_, err := bundle.Inspect(bytes.NewReader(data), int64(len(data)))
			require.ErrorIs(t, err, bundle.ErrMalformed, "bit %d of byte %d", bit, i)
			data[i] ^= 1 << bit
		}
	}
	for n := range data {
		_, err := bundle.Inspect(bytes.NewReader(data[:n]), int64(n))
		require.ErrorIs(t, err, bundle.ErrMalformed, "cut to %d bytes", n)
	}
	_, err := bundle.Inspect(bytes.NewReader(data[:100]), int64(len(data)))
	require.ErrorIs(t, err, bundle.ErrMalformed, "shorter than its size")
}

func TestInspect_TellsWhichBatchIsBroken(t *testing.T) {
	data, sections := small(t)
	data[sections[1].Position+70] ^= 1
	d, err := bundle.Inspect(bytes.NewReader(data), int64(len(data)))
	require.ErrorIs(t, err, bundle.ErrMalformed)
	require.True(t, d.Sections[0].Contents[1].Intact)
	require.False(t, d.Sections[1].Contents[0].Intact)
	var out strings.Builder
	require.NoError(t, d.Print(&out))
	require.Contains(t, out.String(), "bundle 42/7  of agent")
	require.Contains(t, out.String(), "records 100  codec zstd  max_timestamp 1700000000000  producer 3")
	require.Equal(t, 1, strings.Count(out.String(), "BROKEN"))
}

func TestKey(t *testing.T) {
	b := id.Submission{Session: 42, N: 0x1f}.Bundle()
	key := bundle.Key("vc/", b)
	require.Equal(t, "vc/9d26/0000002a/0000001f", key)
	require.True(t, strings.HasPrefix(key, bundle.SessionPrefix("vc/", 42)))
	require.NoError(t, objstore.CheckKey(key))
	got, err := bundle.ParseKey("vc/", key)
	require.NoError(t, err)
	require.Equal(t, b, got)
	for _, bad := range []string{"", "vc/", key[1:], key + "0", "vc/9d27/0000002a/0000001f", "vc/9d26/0000002A/0000001f"} {
		_, err := bundle.ParseKey("vc/", bad)
		require.ErrorIs(t, err, bundle.ErrMalformed, bad)
	}
	var keys []string
	hashes := map[string]bool{}
	for n := range uint32(300) {
		keys = append(keys, bundle.Key("", id.Submission{Session: 1, N: n}.Bundle()))
		hashes[bundle.SessionPrefix("", id.Session(n))[:1]] = true
	}
	require.True(t, sort.StringsAreSorted(keys), "listing follows n")
	require.Len(t, hashes, 16, "sessions spread over the key space")
}

// FuzzInspect: no input makes Inspect fail in another way than ErrMalformed, and what it accepts is consistent.
func FuzzInspect(f *testing.F) {
	var e bundle.Encoder
	e.Reset(name)
	empty, _ := e.Finish()
	f.Add(bytes.Join(empty.Buffers, nil))
	e.Reset(name)
	e.Section(partition(1, 0))
	require.NoError(f, e.Batch(batch(1, 3, 10)))
	one, _ := e.Finish()
	f.Add(bytes.Join(one.Buffers, nil))
	f.Add(longTable(3))
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := bundle.Inspect(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			require.ErrorIs(t, err, bundle.ErrMalformed)
			return
		}
		require.Equal(t, crc32.Checksum(data, objstore.Castagnoli), d.CRC32C)
		at := uint32(bundle.HeaderSize)
		for _, s := range d.Sections {
			for _, b := range s.Contents {
				require.Equal(t, at, b.Position)
				at += b.Length
			}
		}
	})
}

func BenchmarkEncoder(b *testing.B) {
	for _, size := range []int{1_000, 16_000, 100_000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			p := batch(1, 10, size-61)
			b.SetBytes(8 << 20)
			b.ReportAllocs()
			var e bundle.Encoder
			for b.Loop() {
				e.Reset(name)
				e.Section(partition(1, 1))
				for range 8 << 20 / size {
					_ = e.Batch(p)
				}
				e.Finish()
			}
		})
	}
}
