package kafkaproto

import (
	"encoding/binary"
	"fmt"
	"iter"
	"math"
)

// Record is one record of a batch. Key and Value alias the batch or its uncompressed form.
//
//	length of what follows    varint (zigzag)
//	attributes                1 byte, unused
//	timestamp delta           varlong
//	offset delta              varint
//	key length, key           varint, -1: null
//	value length, value       varint, -1: null
//	headers                   varint count, each a key length, key, value length, value
type Record struct {
	Offset    int64 // the batch's base offset + delta
	Timestamp int64 // ms; the time of append for all records of a LogAppendTime batch
	Key       []byte
	Value     []byte
	NullKey   bool
	NullValue bool
}

// Records opens a batch and walks its records, at most maxBytes of them uncompressed. Errors are ErrCorrupt and end
// the walk; among them is a record count that is not true.
func Records(b RecordBatch, maxBytes int) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		p, err := Decompress(b.Codec(), b[BatchOverhead:], maxBytes)
		if err != nil {
			yield(Record{}, err)
			return
		}
		for i := range b.RecordCount() {
			r, rest, err := nextRecord(b, p)
			if err != nil {
				yield(Record{}, fmt.Errorf("%w: record %d of %d: %w", ErrCorrupt, i, b.RecordCount(), err))
				return
			}
			if !yield(r, nil) {
				return
			}
			p = rest
		}
		if len(p) > 0 {
			yield(Record{}, fmt.Errorf("%w: %d bytes after the last record", ErrCorrupt, len(p)))
		}
	}
}

// nextRecord cuts one record off p.
func nextRecord(b RecordBatch, p []byte) (Record, []byte, error) {
	outer := reader{src: p}
	inner := reader{src: outer.take(int(outer.varint()))}
	inner.take(1) // attributes
	timestamp := b.BaseTimestamp() + inner.varlong()
	if b.LogAppendTime() {
		timestamp = b.MaxTimestamp()
	}
	r := Record{Timestamp: timestamp, Offset: b.BaseOffset() + int64(inner.varint())}
	r.Key, r.NullKey = inner.varbytes()
	r.Value, r.NullValue = inner.varbytes()
	headers := inner.varint()
	if int64(headers)*2 > int64(len(inner.src)) || headers < 0 {
		inner.fail("header count exceeds the record")
	}
	for range headers {
		if inner.err != nil {
			break
		}
		inner.take(int(inner.varint()))
		inner.varbytes()
	}
	switch {
	case outer.err != nil:
		return Record{}, nil, outer.err
	case inner.err != nil:
		return Record{}, nil, inner.err
	case len(inner.src) > 0:
		return Record{}, nil, fmt.Errorf("%d bytes too many", len(inner.src))
	}
	return r, outer.src, nil
}

func (r *reader) varlong() int64 {
	v, n := binary.Varint(r.src)
	if n <= 0 {
		r.fail("bad varint")
		return 0
	}
	r.src = r.src[n:]
	return v
}

func (r *reader) varint() int32 {
	before := len(r.src)
	v := r.varlong()
	if v < math.MinInt32 || v > math.MaxInt32 || before-len(r.src) > maxVarint32 {
		r.fail("varint of more than 32 bits")
		return 0
	}
	return int32(v)
}

// varbytes takes bytes with their length before; a length of -1 is null.
func (r *reader) varbytes() (p []byte, null bool) {
	n := r.varint()
	if n == -1 {
		return nil, true
	}
	return r.take(int(n)), false
}
