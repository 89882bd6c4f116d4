package recode_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/agent/recode"
	"github.com/freshet-io/freshet/kafkaproto"
)

var codecs = []kafkaproto.Codec{
	kafkaproto.NoCodec, kafkaproto.Gzip, kafkaproto.Snappy, kafkaproto.LZ4, kafkaproto.Zstd,
}

// records encodes n records. Records whose numbers are in keyless have a null key.
func records(n int, keyless ...int) []byte {
	var all []byte
	for i := range n {
		var r []byte
		r = append(r, 0)
		r = kbin.AppendVarint(r, int32(i))
		r = kbin.AppendVarint(r, int32(i))
		key := []byte(fmt.Sprintf("key-%d", i))
		for _, k := range keyless {
			if k == i {
				key = nil
			}
		}
		r = kbin.AppendVarintBytes(r, key)
		r = kbin.AppendVarintBytes(r, bytes.Repeat([]byte("value "), 1+i%50))
		r = kbin.AppendVarint(r, 0)
		all = kbin.AppendVarint(all, int32(len(r)))
		all = append(all, r...)
	}
	return all
}

// apply returns the batch to store.
func apply(ctx context.Context, c *recode.Recoder, b kafkaproto.RecordBatch, r *recode.Rules) (out kafkaproto.RecordBatch, err error) {
	err = c.Apply(ctx, b, r, recode.MaxRecordErrors, func(stored kafkaproto.RecordBatch) { out = stored })
	return out, err
}

func batch(t *testing.T, codec kafkaproto.Codec, n int, payload []byte) kafkaproto.RecordBatch {
	t.Helper()
	if codec != kafkaproto.NoCodec {
		c, err := kgo.DefaultCompressor([]kgo.CompressionCodec{
			kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
		}[codec])
		require.NoError(t, err)
		var used kgo.CompressionCodecType
		payload, used = c.Compress(new(bytes.Buffer), payload)
		require.EqualValues(t, codec, used)
	}
	return header(codec, n, payload)
}

func header(codec kafkaproto.Codec, n int, payload []byte) kafkaproto.RecordBatch {
	b := make(kafkaproto.RecordBatch, kafkaproto.BatchOverhead, kafkaproto.BatchOverhead+len(payload))
	b = append(b, payload...)
	binary.BigEndian.PutUint32(b[8:], uint32(len(b)-12))
	b[16] = 2
	binary.BigEndian.PutUint16(b[21:], uint16(codec)|0x10)
	binary.BigEndian.PutUint32(b[23:], uint32(n-1))
	binary.BigEndian.PutUint64(b[43:], 77)
	binary.BigEndian.PutUint32(b[57:], uint32(n))
	binary.BigEndian.PutUint32(b[17:], b.ComputeCRC())
	return b
}

func TestRecoder_EveryCodecToEveryOther(t *testing.T) {
	payload := records(2000)
	open := kgo.DefaultDecompressor()
	for _, from := range codecs {
		for _, to := range codecs {
			t.Run(from.String()+" to "+to.String(), func(t *testing.T) {
				in := batch(t, from, 2000, payload)
				sent := bytes.Clone(in)
				out, err := apply(t.Context(), recode.New(recode.Config{}), in, &recode.Rules{
					Keys: true, Compress: true, Codec: to, Level: map[kafkaproto.Codec]int{
						kafkaproto.Gzip: -1, kafkaproto.LZ4: 9, kafkaproto.Zstd: 3,
					}[to], MaxBytes: 1 << 20,
				})
				require.NoError(t, err)
				require.Equal(t, sent, []byte(in), "what was sent is left alone")
				if from == to {
					require.Equal(t, sent, []byte(out), "stored verbatim")
					return
				}
				require.Equal(t, to, out.Codec())
				require.Equal(t, len(out), out.Length())
				require.Equal(t, out.ComputeCRC(), out.CRC())
				require.True(t, out.Transactional(), "other attributes stay")
				require.EqualValues(t, 77, out.ProducerID())
				require.EqualValues(t, 2000, out.RecordCount())
				got, err := open.Decompress(out[kafkaproto.BatchOverhead:], kgo.CompressionCodecType(to))
				require.NoError(t, err)
				require.True(t, bytes.Equal(payload, got))
			})
		}
	}
}

func TestRecoder_RecordsWithoutKey(t *testing.T) {
	rules := &recode.Rules{Keys: true, Partition: "users-3"}
	for _, codec := range codecs {
		require.True(t, rules.Needs(codec))
		_, err := apply(t.Context(), recode.New(recode.Config{}), batch(t, codec, 10, records(10, 2, 3, 5, 7)), rules)
		var refused *recode.RecordsError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, 4, refused.Total)
		require.Len(t, refused.Records, 4, "all are listed")
		require.EqualValues(t, 7, refused.Records[3].Index)
		require.Equal(t, 3, strings.Count(refused.Error(), "users-3"), "the message repeats three")
		require.Equal(t, "Compacted topic cannot accept message without key in topic partition users-3.", refused.Records[0].Message)
		var code *kerr.Error
		require.ErrorAs(t, err, &code)
		require.Equal(t, kerr.InvalidRecord, code)
	}
}

// TestRecoder_RecordErrorsAreBounded opens a batch with more offending records than an answer lists.
func TestRecoder_RecordErrorsAreBounded(t *testing.T) {
	const count = recode.MaxRecordErrors + 1
	null := make([]int, count)
	for i := range null {
		null[i] = i
	}
	b := batch(t, kafkaproto.Gzip, count, records(count, null...))
	for _, listed := range []int{recode.MaxRecordErrors, 5, 0} {
		err := recode.New(recode.Config{}).Apply(t.Context(), b, &recode.Rules{Keys: true, Partition: "users-3"}, listed, nil)
		var refused *recode.RecordsError
		require.ErrorAs(t, err, &refused)
		require.Equal(t, count, refused.Total)
		require.Len(t, refused.Records, listed)
		require.Contains(t, refused.Error(), "16385 record errors in total")
	}
}

func TestRecoder_BrokenRecords(t *testing.T) {
	good := records(10)
	for name, b := range map[string]kafkaproto.RecordBatch{
		"fewer than claimed":   batch(t, kafkaproto.Gzip, 11, good),
		"more than claimed":    batch(t, kafkaproto.Zstd, 9, good),
		"cut off":              batch(t, kafkaproto.NoCodec, 10, good[:len(good)-1]),
		"not compressed":       header(kafkaproto.Gzip, 10, good),
		"no snappy":            header(kafkaproto.Snappy, 10, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}),
		"snappy stream cut":    header(kafkaproto.Snappy, 10, []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 9}),
		"huge record":          header(kafkaproto.NoCodec, 1, kbin.AppendVarlong(nil, 1<<60)),
		"endless varint":       header(kafkaproto.NoCodec, 1, bytes.Repeat([]byte{0xff}, 20)),
		"zstd of another kind": header(kafkaproto.Zstd, 1, []byte("not zstd at all")),
		"lz4 of another kind":  header(kafkaproto.LZ4, 1, []byte("not lz4 at all")),
		"key beyond record":    header(kafkaproto.NoCodec, 1, []byte{8, 0, 0, 0, 100}),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := apply(t.Context(), recode.New(recode.Config{}), b, &recode.Rules{Keys: true})
			var refused *kafkaproto.BatchError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, kerr.InvalidRecord, refused.Kafka)
		})
	}
}

func TestRecoder_Bounds(t *testing.T) {
	payload := records(1000)
	b := batch(t, kafkaproto.Gzip, 1000, payload)
	for _, c := range []struct {
		max  int64
		fits bool
	}{{int64(len(payload)), true}, {int64(len(payload)) - 1, false}} {
		_, err := apply(t.Context(), recode.New(recode.Config{MaxRecordBytes: c.max}), b, &recode.Rules{Keys: true})
		require.Equal(t, c.fits, err == nil, err)
	}
	_, err := apply(t.Context(), recode.New(recode.Config{}), b, &recode.Rules{Compress: true, MaxBytes: 10000})
	var refused *kafkaproto.BatchError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, kerr.MessageTooLarge, refused.Kafka)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = apply(ctx, recode.New(recode.Config{}), b, &recode.Rules{Keys: true})
	require.True(t, errors.Is(err, context.Canceled))
	require.False(t, (&recode.Rules{Compress: true, Codec: kafkaproto.Gzip}).Needs(kafkaproto.Gzip))
}

// TestRecoder_MaxRecordBytes: a batch is refused before its too large record is decompressed, so a claimed length is enough.
func TestRecoder_MaxRecordBytes(t *testing.T) {
	const most = 1000
	c, rules := recode.New(recode.Config{}), &recode.Rules{MaxRecordBytes: most}
	record := func(size int) []byte {
		r := []byte{0}
		r = kbin.AppendVarint(r, 0)
		r = kbin.AppendVarint(r, 0)
		r = kbin.AppendVarintBytes(r, nil)
		value := size - len(r) - 3 // the length of the value in two bytes, and no headers
		r = kbin.AppendVarint(r, int32(value))
		r = append(append(r, make([]byte, value)...), 0)
		return append(kbin.AppendVarint(nil, int32(len(r))), r...)
	}
	for _, codec := range codecs {
		fits, exceeds := batch(t, codec, 1, record(most)), batch(t, codec, 1, record(most+1))
		bomb := batch(t, codec, 1, append(kbin.AppendVarint(nil, 200<<20), make([]byte, 100)...))
		compressed := codec != kafkaproto.NoCodec
		require.Equal(t, compressed, rules.Needs(codec), codec)
		got, err := apply(t.Context(), c, fits, rules)
		require.NoError(t, err, codec)
		require.Equal(t, fits, got)
		if !compressed {
			_, err = apply(t.Context(), c, exceeds, rules)
			require.NoError(t, err, "max.message.bytes bounds records that are not compressed")
			continue
		}
		_, err = apply(t.Context(), c, exceeds, rules)
		require.ErrorIs(t, err, kerr.InvalidRecord, codec)
		require.ErrorContains(t, err, "record 0: size 1001 exceeds the configured maximum record size of 1000", codec)
		_, err = apply(t.Context(), c, bomb, rules)
		require.ErrorContains(t, err, "size 209715200 exceeds the configured maximum record size of 1000", codec)
	}
}

// TestRecoder_KeepsNoMoreThanABatchMayHave: records that decompress to much more than max.message.bytes are refused without being
// held.
func TestRecoder_KeepsNoMoreThanABatchMayHave(t *testing.T) {
	const size = 8 << 20
	b := batch(t, kafkaproto.Gzip, 1, zeros(size))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := apply(t.Context(), recode.New(recode.Config{}), b, &recode.Rules{Keys: true, Compress: true, MaxBytes: 64 << 10})
	runtime.ReadMemStats(&after)
	var refused *kafkaproto.BatchError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, kerr.MessageTooLarge, refused.Kafka)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size/2))
}

func TestRecoder_Find(t *testing.T) {
	c := recode.New(recode.Config{})
	for _, codec := range codecs {
		b := batch(t, codec, 10, records(10))
		b.SetBaseOffset(100)
		for _, tt := range []struct{ timestamp, offset, found int64 }{{0, 0, 0}, {3, 0, 3}, {3, 105, 5}, {9, 109, 9}} {
			at, ok, err := c.Find(t.Context(), b, tt.timestamp, tt.offset)
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, recode.Position{Offset: 100 + tt.found, Timestamp: tt.found}, at)
		}
		_, ok, err := c.Find(t.Context(), b, 10, 0)
		require.NoError(t, err)
		require.False(t, ok)
		b.StampLogAppendTime(50)
		at, ok, err := c.Find(t.Context(), b, 10, 102)
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, recode.Position{Offset: 102, Timestamp: 50}, at, "all have the time of append")
	}
	good := records(10)
	for name, b := range map[string]kafkaproto.RecordBatch{
		"fewer than claimed": batch(t, kafkaproto.Gzip, 11, good),
		"more than claimed":  batch(t, kafkaproto.Zstd, 9, good),
		"not compressed":     header(kafkaproto.LZ4, 10, good),
		"beyond the batch":   header(kafkaproto.NoCodec, 1, []byte{12, 0, 50, 50, 1, 1, 0}),
	} {
		_, _, err := c.Find(t.Context(), b, 20, 0)
		require.ErrorIs(t, err, kafkaproto.ErrCorrupt, name)
	}
}

// TestRecoder_ZstdLevel22: the window of the highest level that producers can be set to is taken.
func TestRecoder_ZstdLevel22(t *testing.T) {
	var p bytes.Buffer
	z, err := zstd.NewWriter(&p, zstd.WithWindowSize(128<<20), zstd.WithLowerEncoderMem(true), zstd.WithEncoderConcurrency(1))
	require.NoError(t, err)
	_, err = z.Write(records(10))
	require.NoError(t, err)
	require.NoError(t, z.Flush()) // so that the size is not known when the frame begins, as with Kafka's stream
	require.NoError(t, z.Close())
	_, err = apply(t.Context(), recode.New(recode.Config{}), header(kafkaproto.Zstd, 10, p.Bytes()), &recode.Rules{Keys: true})
	require.NoError(t, err)
}

func FuzzRecoder(f *testing.F) {
	f.Add(byte(0), int32(3), records(3))
	f.Add(byte(2), int32(1), []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 1, 0})
	f.Fuzz(func(t *testing.T, codec byte, count int32, payload []byte) {
		b := header(kafkaproto.Codec(codec%5), int(count), payload)
		out, err := apply(t.Context(), recode.New(recode.Config{MaxRecordBytes: 1 << 20}), b, &recode.Rules{
			Keys: true, Compress: true, Codec: kafkaproto.LZ4, Level: 9, MaxBytes: 1 << 20,
		})
		if err == nil {
			// A second pass accepts the stored batch.
			_, err = apply(t.Context(), recode.New(recode.Config{MaxRecordBytes: 1 << 20}), out, &recode.Rules{Keys: true})
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}
