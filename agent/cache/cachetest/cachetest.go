// Package cachetest builds bundles of record batches for tests of readers.
package cachetest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Options of a batch.
type Options struct {
	Gzip          bool
	LogAppendTime bool
}

// Batch encodes one record per timestamp, each with the given value, as a producer sends it: base offset 0, some
// leader epoch.
func Batch(value []byte, timestamps ...int64) []byte {
	return BatchWith(Options{}, value, timestamps...)
}

// BatchWith is Batch with options.
func BatchWith(o Options, value []byte, timestamps ...int64) []byte {
	const overhead = 64 // of a record or a batch, more than bytes
	largest := timestamps[0]
	records := make([]byte, 0, len(timestamps)*(len(value)+overhead))
	var body []byte
	for i, ts := range timestamps {
		r := kmsg.Record{TimestampDelta64: ts - timestamps[0], OffsetDelta: int32(i), Value: value}
		body = r.AppendTo(slices.Grow(body[:0], len(value)+overhead))
		body := body[1:] // its length is 0 so far, one byte
		records = binary.AppendVarint(records, int64(len(body)))
		records = append(records, body...)
		largest = max(largest, ts)
	}
	attributes := int16(0)
	if o.LogAppendTime {
		attributes |= 8
	}
	if o.Gzip {
		attributes |= 1
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		_, _ = w.Write(records)
		_ = w.Close()
		records = out.Bytes()
	}
	b := kmsg.RecordBatch{
		Length: int32(49 + len(records)), PartitionLeaderEpoch: 7, Magic: 2, Attributes: attributes,
		LastOffsetDelta: int32(len(timestamps) - 1), FirstTimestamp: timestamps[0], MaxTimestamp: largest,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(timestamps)), Records: records,
	}
	raw := b.AppendTo(make([]byte, 0, len(records)+overhead))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return raw
}

// Stamped gives a batch of one record with another timestamp: a copy, which is cheaper than making it.
func Stamped(like []byte, timestamp int64) []byte {
	raw := bytes.Clone(like)
	binary.BigEndian.PutUint64(raw[27:], uint64(timestamp)) // first
	binary.BigEndian.PutUint64(raw[35:], uint64(timestamp)) // largest
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return raw
}

// Placed is a batch in a bundle.
type Placed struct {
	Position uint32
	Raw      []byte
}

// Bundle collects batches and puts them as an object.
type Bundle struct {
	ID      id.Bundle
	Batches []Placed
	bytes   []byte
}

// NewBundle begins a bundle with a header's worth of bytes.
func NewBundle(b id.Bundle) *Bundle { return &Bundle{ID: b, bytes: make([]byte, 24)} }

// Add appends a batch and gives its place.
func (b *Bundle) Add(raw []byte) Placed {
	p := Placed{Position: uint32(len(b.bytes)), Raw: raw}
	b.bytes = append(b.bytes, raw...)
	b.Batches = append(b.Batches, p)
	return p
}

// Key is where the bundle's object lies.
func Key(b id.Bundle) string { return bundle.Key("", b) }

// Bytes is the object as it is so far.
func (b *Bundle) Bytes() []byte { return b.bytes }

// Store puts the object.
func (b *Bundle) Store(tb testing.TB, bucket objstore.Bucket) {
	tb.Helper()
	require.NoError(tb, bucket.Put(context.Background(), Key(b.ID), objstore.Body{
		Buffers: [][]byte{b.bytes}, Size: int64(len(b.bytes)), CRC32C: crc32.Checksum(b.bytes, castagnoli),
	}))
}

// Extent makes the extent of adjacent batches, at base.
func (b *Bundle) Extent(base int64, batches ...Placed) extent.Extent {
	e := extent.Extent{
		Base: base, Last: base - 1, MaxTimestamp: -1, Bundle: b.ID, Position: batches[0].Position,
		Batches: uint32(len(batches)),
	}
	for _, p := range batches {
		e.Length += uint32(len(p.Raw))
		e.Last += int64(binary.BigEndian.Uint32(p.Raw[23:])) + 1
		e.MaxTimestamp = max(e.MaxTimestamp, int64(binary.BigEndian.Uint64(p.Raw[35:])))
	}
	return e
}

// Patched is a batch as readers must see it.
func Patched(raw []byte, base int64) []byte {
	out := bytes.Clone(raw)
	patch(out, base)
	return out
}

func patch(raw []byte, base int64) {
	binary.BigEndian.PutUint64(raw, uint64(base))
	kafkaproto.RecordBatch(raw).SetPartitionLeaderEpoch(kafkaproto.LogEpoch)
}
