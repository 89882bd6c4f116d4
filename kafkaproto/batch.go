package kafkaproto

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
)

// BatchOverhead is the size of a record batch without its records.
const BatchOverhead = 61

// maxBatchOffsets is the largest last offset delta of a batch.
const maxBatchOffsets = 1<<31 - 1

// Positions of a v2 record batch's fields.
//
//	offset  size  field
//	0       8     base offset                 outside the CRC
//	8       4     batch length after itself   outside the CRC
//	12      4     partition leader epoch      outside the CRC
//	16      1     magic, 2                    outside the CRC
//	17      4     CRC-32C of all that follows
//	21      2     attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon
//	23      4     last offset delta
//	27      8     base timestamp, ms (the delete horizon, if bit 6)
//	35      8     max timestamp, ms
//	43      8     producer id, -1 if none
//	51      2     producer epoch
//	53      4     base sequence
//	57      4     number of records
//	61            records, compressed together
const (
	posBaseOffset      = 0
	posLength          = 8
	posLeaderEpoch     = 12
	posMagic           = 16
	posCRC             = 17
	posAttributes      = 21
	posLastOffsetDelta = 23
	posBaseTimestamp   = 27
	posMaxTimestamp    = 35
	posProducerID      = 43
	posProducerEpoch   = 51
	posBaseSequence    = 53
	posRecordCount     = 57

	// lengthOverhead is what the length field does not count.
	lengthOverhead = 12
)

const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
	attrDeleteHorizon = 0x40
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// RecordBatch is one v2 record batch in wire form. Its methods read and patch fields in place; they panic if it has
// fewer than BatchOverhead bytes, so take it from NextBatch, Batches or Validate.
type RecordBatch []byte

// BaseOffset is the offset of the batch's first record.
func (b RecordBatch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b[posBaseOffset:])) }

// LastOffset is the offset of the batch's last record (or of the last one there was, once compacted).
func (b RecordBatch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// Length is the size of the whole batch in bytes, as its length field claims.
func (b RecordBatch) Length() int {
	return int(int32(binary.BigEndian.Uint32(b[posLength:]))) + lengthOverhead
}

// PartitionLeaderEpoch is the leader epoch the batch was appended in.
func (b RecordBatch) PartitionLeaderEpoch() int32 {
	return int32(binary.BigEndian.Uint32(b[posLeaderEpoch:]))
}

// Magic is the format version; 2 for all that this type covers.
func (b RecordBatch) Magic() int8 { return int8(b[posMagic]) }

// CRC is the stored checksum.
func (b RecordBatch) CRC() uint32 { return binary.BigEndian.Uint32(b[posCRC:]) }

// ComputeCRC is the CRC-32C of what the stored checksum covers.
func (b RecordBatch) ComputeCRC() uint32 { return crc32.Checksum(b[posAttributes:], castagnoli) }

// Attributes are the batch's flags.
func (b RecordBatch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[posAttributes:])) }

// Codec is how the records are compressed.
func (b RecordBatch) Codec() Codec { return Codec(b.Attributes() & attrCodec) }

// LogAppendTime tells whether MaxTimestamp is the time of append and counts for every record.
func (b RecordBatch) LogAppendTime() bool { return b.Attributes()&attrLogAppendTime != 0 }

// Transactional tells whether the batch is part of a transaction.
func (b RecordBatch) Transactional() bool { return b.Attributes()&attrTransactional != 0 }

// IsTransactional tells whether records begin with a transactional batch, valid or not.
func IsTransactional(records []byte) bool {
	return len(records) >= BatchOverhead && RecordBatch(records).Magic() == 2 && RecordBatch(records).Transactional()
}

// Control tells whether the batch is a control batch, which consumers do not see.
func (b RecordBatch) Control() bool { return b.Attributes()&attrControl != 0 }

// DeleteHorizon tells whether BaseTimestamp is a delete horizon (KIP-534).
func (b RecordBatch) DeleteHorizon() bool { return b.Attributes()&attrDeleteHorizon != 0 }

// LastOffsetDelta is the last record's offset relative to the base offset.
func (b RecordBatch) LastOffsetDelta() int32 {
	return int32(binary.BigEndian.Uint32(b[posLastOffsetDelta:]))
}

// BaseTimestamp is what the records' timestamp deltas count from, ms.
func (b RecordBatch) BaseTimestamp() int64 {
	return int64(binary.BigEndian.Uint64(b[posBaseTimestamp:]))
}

// MaxTimestamp is the largest record timestamp, ms, or the time of append; -1 if none.
func (b RecordBatch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[posMaxTimestamp:])) }

// ProducerID is the idempotent producer's id; -1 if none.
func (b RecordBatch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[posProducerID:])) }

// ProducerEpoch is the idempotent producer's epoch.
func (b RecordBatch) ProducerEpoch() int16 {
	return int16(binary.BigEndian.Uint16(b[posProducerEpoch:]))
}

// BaseSequence is the first record's sequence number.
func (b RecordBatch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[posBaseSequence:])) }

// RecordCount is the number of records held.
func (b RecordBatch) RecordCount() int32 { return int32(binary.BigEndian.Uint32(b[posRecordCount:])) }

// SetBaseOffset patches the base offset, which lies outside the CRC.
func (b RecordBatch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[posBaseOffset:], uint64(offset))
}

// LogEpoch is the leader epoch of every batch that readers get: unknown (RecordBatch.NO_PARTITION_LEADER_EPOCH). Consumers validate
// a position by OffsetForLeaderEpoch only if its epoch is known (KIP-320). Logs are never truncated, so validation finds nothing.
const LogEpoch int32 = -1

// SetPartitionLeaderEpoch patches the leader epoch, which lies outside the CRC.
func (b RecordBatch) SetPartitionLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[posLeaderEpoch:], uint32(epoch))
}

// StampLogAppendTime makes ms the timestamp of every record and re-checksums, as Kafka does for topics with
// message.timestamp.type=LogAppendTime.
func (b RecordBatch) StampLogAppendTime(ms int64) {
	binary.BigEndian.PutUint16(b[posAttributes:], uint16(b.Attributes()|attrLogAppendTime))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(ms))
	b.checksum()
}

func (b RecordBatch) checksum() { binary.BigEndian.PutUint32(b[posCRC:], b.ComputeCRC()) }

// NextBatch cuts the first batch off p. It checks the claimed length and the magic, not the checksum. The batch
// aliases p. An empty p is an error.
func NextBatch(p []byte) (RecordBatch, []byte, error) {
	if len(p) < BatchOverhead {
		return nil, nil, fmt.Errorf("%w: %d bytes are no record batch", ErrMalformed, len(p))
	}
	b := RecordBatch(p)
	if b.Magic() != 2 {
		return nil, nil, fmt.Errorf("%w: record batch of magic %d", ErrMalformed, b.Magic())
	}
	n := b.Length()
	if n < BatchOverhead || n > len(p) {
		return nil, nil, fmt.Errorf("%w: record batch claims %d of %d bytes", ErrMalformed, n, len(p))
	}
	return b[:n:n], p[n:], nil
}

// Batches walks the record batches of p, which alias it. After an error it stops.
func Batches(p []byte) iter.Seq2[RecordBatch, error] {
	return func(yield func(RecordBatch, error) bool) {
		for len(p) > 0 {
			b, rest, err := NextBatch(p)
			if !yield(b, err) || err != nil {
				return
			}
			p = rest
		}
	}
}
