package metalog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// The value of a log entry, of which testdata/record.golden has an example (internal/bytetable).
//
// Record:
//
//	offset  field    form    meaning
//	0       format   1 byte  = 1
//	1       flags    1 byte  1: first part of a payload; 2: last part
//	2       index    u64 BE  as in the key
//	10      tenure   u64 BE  create revision of the writer's ownership key
//	18      nonce    u64 BE  random per entry, the same in every attempt to append it
//	26      total    u64 BE  payload bytes ever appended, this entry's included
//	34      crc      u32 BE  = CRC-32C of bytes 0-33 and the payload
//	38      payload  rest
const (
	recordFormat = 1
	headerBytes  = 38
	crcOffset    = 34
	flagFirst    = 1
	flagLast     = 2
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EncodeRecord gives the value of a log entry.
func EncodeRecord(r *Record) []byte {
	p := make([]byte, headerBytes, headerBytes+len(r.Payload))
	p[0] = recordFormat
	if r.First {
		p[1] |= flagFirst
	}
	if r.Last {
		p[1] |= flagLast
	}
	binary.BigEndian.PutUint64(p[2:], r.Index)
	binary.BigEndian.PutUint64(p[10:], uint64(r.Tenure))
	binary.BigEndian.PutUint64(p[18:], r.Nonce)
	binary.BigEndian.PutUint64(p[26:], uint64(r.Total))
	crc := crc32.Update(crc32.Checksum(p[:crcOffset], castagnoli), castagnoli, r.Payload)
	binary.BigEndian.PutUint32(p[crcOffset:], crc)
	return append(p, r.Payload...)
}

// DecodeRecord reads the value of the log entry under the key of that index. The payload aliases p. Errors:
// ErrCorrupt; ErrUnsupported for an intact entry with flags that this program does not know; both for a later format,
// whose checksum cannot be verified.
func DecodeRecord(index uint64, p []byte) (Record, error) {
	if len(p) > 0 && p[0] > recordFormat {
		return Record{}, fmt.Errorf("%w, or %w: entry %d has format %d, this program reads format %d: start a newer program",
			ErrUnsupported, ErrCorrupt, index, p[0], recordFormat)
	}
	if len(p) < headerBytes || p[0] != recordFormat {
		return Record{}, fmt.Errorf("%w: entry %d has no valid header", ErrCorrupt, index)
	}
	crc := crc32.Update(crc32.Checksum(p[:crcOffset], castagnoli), castagnoli, p[headerBytes:])
	if stored := binary.BigEndian.Uint32(p[crcOffset:]); stored != crc {
		return Record{}, fmt.Errorf("%w: entry %d has checksum %08x, stored is %08x", ErrCorrupt, index, crc, stored)
	}
	if stored := binary.BigEndian.Uint64(p[2:]); stored != index {
		return Record{}, fmt.Errorf("%w: entry %d stands at index %d", ErrCorrupt, stored, index)
	}
	if unknown := p[1] &^ (flagFirst | flagLast); unknown != 0 {
		return Record{}, fmt.Errorf("%w: entry %d has flags %#x: start a newer program", ErrUnsupported, index, unknown)
	}
	return Record{
		Entry: Entry{
			Index:   index,
			Tenure:  int64(binary.BigEndian.Uint64(p[10:])),
			First:   p[1]&flagFirst != 0,
			Last:    p[1]&flagLast != 0,
			Payload: p[headerBytes:],
		},
		Nonce: binary.BigEndian.Uint64(p[18:]),
		Total: int64(binary.BigEndian.Uint64(p[26:])),
	}, nil
}

// EncodeTail gives the value of the tail key: index and total as 16 hex digits each, a dot between. Text, so that an
// operator can read it; fixed, so that a transaction can compare it.
func EncodeTail(t Tail) string { return fmt.Sprintf("%016x.%016x", t.Index, uint64(t.Total)) }

// DecodeTail reads the value of the tail key. Errors: ErrCorrupt.
func DecodeTail(s string) (Tail, error) {
	var t Tail
	if len(s) != 33 {
		return Tail{}, fmt.Errorf("%w: tail %q", ErrCorrupt, s)
	}
	if _, err := fmt.Sscanf(s, "%016x.%016x", &t.Index, &t.Total); err != nil {
		return Tail{}, fmt.Errorf("%w: tail %q: %w", ErrCorrupt, s, err)
	}
	if EncodeTail(t) != s {
		return Tail{}, fmt.Errorf("%w: tail %q", ErrCorrupt, s)
	}
	return t, nil
}
