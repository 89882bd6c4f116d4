// Package batchtest compresses record batches for tests.
package batchtest

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Where a batch of version 2 has its length, checksum, attributes and records. The length counts the bytes behind it, the
// checksum is of the attributes and all behind them.
const (
	lengthAt, crcAt, attributesAt, recordsAt = 8, 17, 21, 61
	uncounted                                = 12
	codecMask                                = 7
)

// Compress returns a copy of an uncompressed batch with its records compressed by a codec, in Kafka's numbering.
func Compress[B ~[]byte, C ~int8](tb testing.TB, batch B, codec C) B {
	tb.Helper()
	out := append(bytes.Clone(batch[:recordsAt]), CompressRecords(tb, batch[recordsAt:], codec)...)
	binary.BigEndian.PutUint32(out[lengthAt:], uint32(len(out)-uncounted))
	attributes := binary.BigEndian.Uint16(out[attributesAt:])
	binary.BigEndian.PutUint16(out[attributesAt:], attributes&^codecMask|uint16(codec))
	binary.BigEndian.PutUint32(out[crcAt:], crc32.Checksum(out[attributesAt:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// CompressRecords returns the compressed form of p.
func CompressRecords[C ~int8](tb testing.TB, p []byte, codec C) []byte {
	tb.Helper()
	if codec == 0 {
		return bytes.Clone(p)
	}
	c, err := kgo.DefaultCompressor([]kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	}[codec])
	require.NoError(tb, err)
	out, used := c.Compress(new(bytes.Buffer), p)
	require.EqualValues(tb, codec, used)
	return out
}
