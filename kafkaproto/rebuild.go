package kafkaproto

import "encoding/binary"

// MarkerOf gives how a control batch ends its transaction; false if it is no marker, has no record or cannot be read.
func MarkerOf(b RecordBatch) (m Marker, ok bool) {
	if !b.Control() || b.RecordCount() == 0 || b.Codec() != NoCodec {
		return 0, false
	}
	r, _, err := nextRecord(b, b[BatchOverhead:])
	if err != nil || len(r.Key) < 4 {
		return 0, false
	}
	m = Marker(binary.BigEndian.Uint16(r.Key[2:]))
	return m, m == Abort || m == Commit
}

// Thinned is what a batch becomes when some of its records went: offsets, producer and flags stay, as Kafka's
// MemoryRecords.buildRetainedRecordsInto keeps them.
type Thinned struct {
	BaseTimestamp int64 // ms, what the timestamps of records count from: the delete horizon, if there is one
	MaxTimestamp  int64 // ms
	DeleteHorizon bool  // BaseTimestamp is a delete horizon (KIP-534)
	Records       int32
}

// SealThinned makes a batch of p: its first BatchOverhead bytes are the header of the batch it comes from, the rest the
// records that stay, compressed as that batch was. It sets length, what t says, and the checksum.
func SealThinned(p []byte, t Thinned) RecordBatch {
	b := RecordBatch(p)
	attributes := uint16(b.Attributes()) &^ attrDeleteHorizon
	if t.DeleteHorizon {
		attributes |= attrDeleteHorizon
	}
	binary.BigEndian.PutUint32(b[posLength:], uint32(len(b)-lengthOverhead))
	binary.BigEndian.PutUint16(b[posAttributes:], attributes)
	binary.BigEndian.PutUint64(b[posBaseTimestamp:], uint64(t.BaseTimestamp))
	binary.BigEndian.PutUint64(b[posMaxTimestamp:], uint64(t.MaxTimestamp))
	binary.BigEndian.PutUint32(b[posRecordCount:], uint32(t.Records))
	b.checksum()
	return b
}
