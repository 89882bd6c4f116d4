package kafkaproto

import "encoding/binary"

// Marker is how a transaction ends.
type Marker int16

// The types of a control record's key (Kafka's ControlRecordType).
const (
	Abort  Marker = 0
	Commit Marker = 1
)

// EmptyBatchSize and ControlBatchSize are the sizes of the batches built here.
const (
	EmptyBatchSize   = BatchOverhead
	ControlBatchSize = BatchOverhead + controlRecordSize
	// controlRecordSize: length, attributes, two deltas, key of 4 and value of 6 bytes with lengths, no headers.
	controlRecordSize = 1 + 1 + 1 + 1 + 1 + 4 + 1 + 6 + 1
)

// header is what a batch without client bytes is built from.
type header struct {
	base          int64
	lastDelta     int32
	attributes    int16
	timestamp     int64 // base and max
	producerID    int64
	producerEpoch int16
	records       int32
}

// appendHeader appends a batch header for size bytes of whole batch, its checksum not yet set.
func (h header) append(dst []byte, size int) []byte {
	leaderEpoch := LogEpoch
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.base))
	dst = binary.BigEndian.AppendUint32(dst, uint32(size-lengthOverhead))
	dst = binary.BigEndian.AppendUint32(dst, uint32(leaderEpoch))
	dst = append(dst, 2)
	dst = binary.BigEndian.AppendUint32(dst, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.attributes))
	dst = binary.BigEndian.AppendUint32(dst, uint32(h.lastDelta))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.timestamp))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.timestamp))
	dst = binary.BigEndian.AppendUint64(dst, uint64(h.producerID))
	dst = binary.BigEndian.AppendUint16(dst, uint16(h.producerEpoch))
	dst = binary.BigEndian.AppendUint32(dst, 1<<32-1) // base sequence -1
	return binary.BigEndian.AppendUint32(dst, uint32(h.records))
}

// AppendEmptyBatches appends batches without records that cover the offsets base to last, so that consumers pass
// ranges whose records are gone (Kafka's DefaultRecordBatch.writeEmptyHeader). It is one batch unless the range is
// wider than a batch's offset delta can say. Nothing is appended if last < base.
func AppendEmptyBatches(dst []byte, base, last int64) []byte {
	for base <= last {
		delta := min(last-base, maxBatchOffsets)
		at := len(dst)
		dst = header{
			base: base, lastDelta: int32(delta), timestamp: -1, producerID: -1, producerEpoch: -1,
		}.append(dst, EmptyBatchSize)
		RecordBatch(dst[at:]).checksum()
		base += delta + 1
	}
	return dst
}

// AppendControlBatch appends the control batch that ends a producer's transaction in one partition, at offset base
// and time timestamp (ms), as Kafka's MemoryRecords.withEndTransactionMarker encodes it.
func AppendControlBatch(dst []byte, base, timestamp, producerID int64, producerEpoch int16, m Marker,
	coordinatorEpoch int32,
) []byte {
	at := len(dst)
	dst = header{
		base: base, attributes: attrTransactional | attrControl, timestamp: timestamp,
		producerID: producerID, producerEpoch: producerEpoch, records: 1,
	}.append(dst, ControlBatchSize)
	dst = append(dst, (controlRecordSize-1)<<1, 0, 0, 0) // length as zigzag varint, attributes, deltas
	dst = append(dst, 4<<1)
	dst = binary.BigEndian.AppendUint16(dst, 0) // key version
	dst = binary.BigEndian.AppendUint16(dst, uint16(m))
	dst = append(dst, 6<<1)
	dst = binary.BigEndian.AppendUint16(dst, 0) // value version
	dst = binary.BigEndian.AppendUint32(dst, uint32(coordinatorEpoch))
	dst = append(dst, 0) // headers
	RecordBatch(dst[at:]).checksum()
	return dst
}

// KeyedRecord is a record of a batch that is built here.
type KeyedRecord struct {
	Offset     int64
	Timestamp  int64 // ms
	Key, Value []byte
}

// AppendRecords appends one batch of the records, in ascending order of offsets that lie within 2^31 of the first.
func AppendRecords(dst []byte, records []KeyedRecord) []byte {
	base, latest := records[0].Offset, records[0].Timestamp
	for i := range records {
		latest = max(latest, records[i].Timestamp)
	}
	var body, record []byte
	for i := range records {
		r := &records[i]
		record = append(record[:0], 0) // attributes
		record = binary.AppendVarint(record, r.Timestamp-latest)
		record = binary.AppendVarint(record, r.Offset-base)
		record = appendBytes(appendBytes(record, r.Key), r.Value)
		record = append(record, 0) // headers
		body = append(binary.AppendVarint(body, int64(len(record))), record...)
	}
	at := len(dst)
	dst = header{
		base: base, lastDelta: int32(records[len(records)-1].Offset - base), timestamp: latest,
		producerID: -1, producerEpoch: -1, records: int32(len(records)),
	}.append(dst, BatchOverhead+len(body))
	dst = append(dst, body...)
	RecordBatch(dst[at:]).checksum()
	return dst
}

func appendBytes(dst, p []byte) []byte {
	return append(binary.AppendVarint(dst, int64(len(p))), p...)
}
