package kafkaproto

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/internal/batchtest"
)

// withPayload returns a batch of count records with the given payload, which is said to be of a codec.
func withPayload(codec Codec, count int, payload []byte) RecordBatch {
	b := append(bytes.Clone(batchOf(count)[:BatchOverhead]), payload...)
	return changed(b, func(b RecordBatch) {
		put32(posLength, int32(len(b)-lengthOverhead))(b)
		put16(posAttributes, int16(codec))(b)
	})
}

// validated returns the error of Validate.
func validated(b RecordBatch) error {
	_, err := Validate(b, Limits{ProduceVersion: 9, MaxBytes: 8 << 20, BeforeMaxMs: math.MaxInt64, AfterMaxMs: math.MaxInt64, NowMs: 5000})
	return err
}

func lz4Frame(t *testing.T, p []byte, options ...lz4.Option) []byte {
	t.Helper()
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	require.NoError(t, w.Apply(options...))
	_, err := w.Write(p)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func TestValidate_AcceptsEveryCodec(t *testing.T) {
	for _, n := range []int{1, 3, 40_000} {
		plain := batchOf(n)
		for codec := NoCodec; codec <= Zstd; codec++ {
			require.NoError(t, validated(batchtest.Compress(t, plain, codec)), "%s, %d records", codec, n)
		}
		records := plain[BatchOverhead:]
		for _, options := range [][]lz4.Option{
			{lz4.ChecksumOption(false)},
			{lz4.BlockChecksumOption(true)},
			{lz4.SizeOption(uint64(len(records)))},
			{lz4.BlockSizeOption(lz4.Block64Kb), lz4.CompressionLevelOption(lz4.Level9)},
		} {
			require.NoError(t, validated(withPayload(LZ4, n, lz4Frame(t, records, options...))))
		}
	}
}

func TestValidate_RefusesTrailingBytes(t *testing.T) {
	plain := batchOf(3)
	records := []byte(plain[BatchOverhead:])
	half := len(records) / 2
	framed := append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1)
	block := batchtest.CompressRecords(t, records, Snappy)
	framed = binary.BigEndian.AppendUint32(framed, uint32(len(block)))
	framed = append(framed, block...)
	require.NoError(t, validated(withPayload(Snappy, 3, framed)))
	zstd := func(p []byte) []byte { return batchtest.CompressRecords(t, p, Zstd) }
	require.NoError(t, validated(withPayload(Zstd, 3, append(zstd(records[:half]), zstd(records[half:])...))), "consumers read all frames")

	dependent := lz4Frame(t, records)
	dependent[4] &^= 1 << 5
	garbage := []byte("garbage!garbage!")
	for name, b := range map[string]RecordBatch{
		"uncompressed":                  withPayload(NoCodec, 3, append(bytes.Clone(records), 0)),
		"uncompressed, another record":  withPayload(NoCodec, 2, records),
		"uncompressed, records too few": withPayload(NoCodec, 4, records),
		"uncompressed, cut":             withPayload(NoCodec, 3, records[:len(records)-1]),
		"lz4":                           withPayload(LZ4, 3, append(lz4Frame(t, records), 0)),
		"lz4, two frames":               withPayload(LZ4, 3, append(lz4Frame(t, records[:half]), lz4Frame(t, records[half:])...)),
		"lz4, cut":                      withPayload(LZ4, 3, lz4Frame(t, records)[:40]),
		"lz4, dependent blocks":         withPayload(LZ4, 3, dependent),
		"lz4, garbage":                  withPayload(LZ4, 3, garbage),
		"zstd":                          withPayload(Zstd, 3, append(zstd(records), 0)),
		"zstd, garbage after a frame":   withPayload(Zstd, 3, append(zstd(records), garbage...)),
		"zstd, cut":                     withPayload(Zstd, 3, zstd(records)[:20]),
		"zstd, garbage":                 withPayload(Zstd, 3, garbage),
		"snappy-java":                   withPayload(Snappy, 3, append(bytes.Clone(framed), 0)),
		"snappy-java, cut":              withPayload(Snappy, 3, framed[:len(framed)-1]),
		"snappy-java, cut header":       withPayload(Snappy, 3, framed[:10]),
		"snappy, bomb":                  withPayload(Snappy, 3, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}),
		"gzip, garbage":                 withPayload(Gzip, 3, garbage),
		"no gzip":                       withPayload(Gzip, 3, nil),
		"no lz4":                        withPayload(LZ4, 3, nil),
		"no zstd":                       withPayload(Zstd, 3, nil),
		"no snappy":                     withPayload(Snappy, 3, nil),
	} {
		t.Run(name, func(t *testing.T) { require.ErrorIs(t, validated(b), kerr.InvalidRecord) })
	}
}

// FuzzValidatePayload checks that checkPayload accepts the output of every compressor, agrees with nextRecord on uncompressed records, and
// does not panic.
func FuzzValidatePayload(f *testing.F) {
	f.Add(int8(NoCodec), []byte(batchOf(1)[BatchOverhead:]))
	f.Add(int8(LZ4), []byte{4, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73, 0, 0, 0, 0})
	f.Add(int8(Zstd), []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x58, 1, 0, 0})
	f.Add(int8(Snappy), append(bytes.Clone(xerialMagic), 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff))
	f.Fuzz(func(t *testing.T, codec int8, p []byte) {
		c := Codec(codec & 7 % 5)
		checked := checkPayload(withPayload(c, 1, p))
		if c == NoCodec {
			_, rest, err := nextRecord(batchOf(1), p)
			require.Equal(t, err == nil && len(rest) == 0, checked == nil)
			return
		}
		require.NoError(t, checkPayload(withPayload(c, 1, batchtest.CompressRecords(t, p, c))))
	})
}

func BenchmarkValidate(b *testing.B) {
	plain := batchOf(10_000)
	for _, codec := range []Codec{NoCodec, LZ4, Zstd, Snappy} {
		batch := batchtest.Compress(b, plain, codec)
		b.Run(codec.String(), func(b *testing.B) {
			b.SetBytes(int64(len(plain)))
			b.ReportAllocs()
			for b.Loop() {
				if err := checkPayload(batch); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestValidate_RefusesLongVarints: Java reads at most five bytes of a varint (ByteUtils.readVarint), so a Java consumer would stop at such a
// record for good.
func TestValidate_RefusesLongVarints(t *testing.T) {
	overlong := func(v byte, bytes int) []byte { // the zigzag value v in a number of bytes
		p := []byte{v | 0x80}
		for len(p) < bytes-1 {
			p = append(p, 0x80)
		}
		return append(p, 0)
	}
	record := func(fields ...[]byte) []byte {
		body := append([]byte{0}, bytes.Join(fields, nil)...)
		return append([]byte{byte(len(body) << 1)}, body...)
	}
	null, zero := []byte{1}, []byte{0}
	require.NoError(t, validated(withPayload(NoCodec, 1, record(zero, zero, null, null, zero))))
	require.NoError(t, validated(withPayload(NoCodec, 1, record(zero, zero, overlong(1, 5), null, zero))), "five bytes are read by Java")
	for name, p := range map[string][]byte{
		"offset delta":  record(zero, overlong(0, 6), null, null, zero),
		"key length":    record(zero, zero, overlong(1, 6), null, zero),
		"value length":  record(zero, zero, null, overlong(1, 10), zero),
		"header count":  record(zero, zero, null, null, overlong(0, 6)),
		"record length": append(overlong(12, 6), 0, 0, 0, 1, 1, 0),
	} {
		t.Run(name, func(t *testing.T) {
			b := withPayload(NoCodec, 1, p)
			require.ErrorIs(t, validated(b), kerr.InvalidRecord)
			_, _, err := nextRecord(b, p)
			require.Error(t, err)
		})
	}
}
