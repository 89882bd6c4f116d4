package kafkaproto

import (
	"fmt"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"
)

// minRecordSize is the smallest encoding of one record: seven fields of a byte each.
const minRecordSize = 7

// zstdProduceVersion is the first Produce version that may carry zstd (KIP-110).
const zstdProduceVersion = 7

// Limits are what a topic and a request say of the batches they take.
type Limits struct {
	ProduceVersion int16
	MaxBytes       int32 // max.message.bytes, of the whole batch
	// LogAppendTime: message.timestamp.type; timestamps are not checked then, StampLogAppendTime sets them.
	LogAppendTime bool
	// BeforeMaxMs and AfterMaxMs are message.timestamp.before.max.ms and message.timestamp.after.max.ms.
	BeforeMaxMs, AfterMaxMs int64
	NowMs                   int64
}

// BatchError says why a batch is refused and with which Kafka error.
type BatchError struct {
	Kafka  *kerr.Error
	Detail string
	// Record is the index of the offending record, -1 if it is the batch as a whole (KIP-467).
	Record int32
}

func (e *BatchError) Error() string { return e.Detail }

// Unwrap gives the Kafka error, so that errors.As finds its code.
func (e *BatchError) Unwrap() error { return e.Kafka }

func refuse(k *kerr.Error, format string, args ...any) error {
	return &BatchError{Kafka: k, Detail: fmt.Sprintf(format, args...), Record: -1}
}

// Validate checks the records of one partition of a Produce request without decompressing them, and returns the one
// batch they must be, aliasing records. Errors are *BatchError; order and codes are those of Kafka's ProduceRequest,
// UnifiedLog and LogValidator. Kafka also decompresses the batch and finds wrong record counts and timestamps there.
// Validate finds them only as far as the header, uncompressed records or the codec's blocks show them.
func Validate(records []byte, l Limits) (RecordBatch, error) {
	b, err := singleBatch(records, l.ProduceVersion)
	if err != nil {
		return nil, err
	}
	if b.BaseOffset() != 0 {
		return nil, refuse(kerr.InvalidRecord, "The base offset of a produced record batch should be 0, but it is %d.", b.BaseOffset())
	}
	if int64(len(b)) > int64(l.MaxBytes) {
		return nil, refuse(kerr.MessageTooLarge, "The record batch is %d bytes large, which exceeds the maximum configured value of %d.", len(b), l.MaxBytes)
	}
	if got := b.ComputeCRC(); got != b.CRC() {
		return nil, refuse(kerr.CorruptMessage, "Record is corrupt (stored crc = %d, computed crc = %d).", b.CRC(), got)
	}
	if err := CheckHeader(b); err != nil {
		return nil, err
	}
	if err := checkTimestamps(b, l); err != nil {
		return nil, err
	}
	if err := checkPayload(b); err != nil {
		return nil, err
	}
	return b, nil
}

// CheckHeader checks what the sequencer is told of a batch: its offset range, and its producer. The batch is of magic 2 and
// has its claimed length. Errors are *BatchError.
func CheckHeader(b RecordBatch) error {
	if err := checkOffsets(b); err != nil {
		return err
	}
	return checkProducer(b)
}

// singleBatch takes the one batch of a partition (ProduceRequest.validateRecords).
func singleBatch(records []byte, version int16) (RecordBatch, error) {
	if len(records) <= posMagic {
		return nil, refuse(kerr.InvalidRecord, "Produce requests with version %d must have at least one record batch per partition.", version)
	}
	b := RecordBatch(records)
	if b.Magic() < 0 || b.Magic() > 2 {
		return nil, refuse(kerr.CorruptMessage, "Invalid magic found in record: %d.", b.Magic())
	}
	if b.Magic() != 2 {
		return nil, refuse(kerr.InvalidRecord, "Produce requests with version %d are only allowed to contain record batches with magic version 2.", version)
	}
	n := b.Length()
	switch {
	case n < BatchOverhead:
		return nil, refuse(kerr.CorruptMessage, "Record batch size %d is less than the minimum of %d.", n, BatchOverhead)
	case n > len(records):
		return nil, refuse(kerr.InvalidRecord, "The record batch claims %d of %d bytes.", n, len(records))
	case n < len(records):
		return nil, refuse(kerr.InvalidRecord, "Produce requests with version %d are only allowed to contain exactly one record batch per partition.", version)
	}
	switch codec := b.Codec(); {
	case codec > Zstd:
		return nil, refuse(kerr.UnsupportedCompressionType, "Unknown compression type id: %d.", codec)
	case codec == Zstd && version < zstdProduceVersion:
		return nil, refuse(kerr.UnsupportedCompressionType, "Produce requests with version %d are not allowed to use ZStandard compression.", version)
	}
	return b, nil
}

// checkOffsets: the offset range is what the record count says (LogValidator.validateBatch).
func checkOffsets(b RecordBatch) error {
	count, delta := b.RecordCount(), b.LastOffsetDelta()
	switch {
	case delta < 0:
		return refuse(kerr.InvalidRecord, "Batch has an invalid last offset delta %d.", delta)
	case count <= 0:
		return refuse(kerr.InvalidRecord, "Invalid reported count for record batch: %d.", count)
	case int64(delta)+1 != int64(count):
		return refuse(kerr.InvalidRecord, "Inconsistent batch offset range [0, %d] and count of records %d.", delta, count)
	case b.Codec() == NoCodec && int64(count)*minRecordSize > int64(len(b)-BatchOverhead):
		return refuse(kerr.InvalidRecord, "Invalid reported count for record batch: %d in %d bytes.", count, len(b))
	}
	return nil
}

func checkProducer(b RecordBatch) error {
	idempotent := b.ProducerID() >= 0
	switch {
	case b.Control():
		return refuse(kerr.InvalidRecord, "Clients are not allowed to write control records.")
	case b.DeleteHorizon():
		return refuse(kerr.InvalidRecord, "Clients are not allowed to set a delete horizon.")
	case idempotent && b.BaseSequence() < 0:
		return refuse(kerr.InvalidRecord, "Invalid sequence number %d in record batch with producerId %d.", b.BaseSequence(), b.ProducerID())
	case idempotent && b.ProducerEpoch() < 0:
		return refuse(kerr.InvalidProducerEpoch, "Invalid producer epoch %d in record batch with producerId %d.", b.ProducerEpoch(), b.ProducerID())
	case !idempotent && b.Transactional():
		return refuse(kerr.InvalidRecord, "A transactional record batch needs a producer id.")
	}
	return nil
}

// checkTimestamps looks at the first and the largest timestamp: enough for the upper bound, and for the lower bound
// unless timestamps fall within the batch.
func checkTimestamps(b RecordBatch, l Limits) error {
	if b.LogAppendTime() {
		return refuse(kerr.InvalidTimestamp, "Invalid timestamp type in record batch: producers should not set timestamp type to LogAppendTime.")
	}
	if l.LogAppendTime {
		return nil
	}
	for _, ts := range []int64{b.BaseTimestamp(), b.MaxTimestamp()} {
		if ts == -1 {
			continue
		}
		if ts < l.NowMs-l.BeforeMaxMs || ts > saturatedAdd(l.NowMs, l.AfterMaxMs) {
			return refuse(kerr.InvalidTimestamp, "Timestamp %d is out of range. The timestamp should be within [%d, %d].",
				ts, l.NowMs-l.BeforeMaxMs, saturatedAdd(l.NowMs, l.AfterMaxMs))
		}
	}
	return nil
}

// saturatedAdd: message.timestamp.after.max.ms may be the largest int64.
func saturatedAdd(now, d int64) int64 {
	if d > math.MaxInt64-now {
		return math.MaxInt64
	}
	return now + d
}
