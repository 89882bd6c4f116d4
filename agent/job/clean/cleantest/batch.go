package cleantest

import (
	"encoding/binary"
	"testing"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/batchtest"
	"github.com/freshet-io/freshet/kafkaproto"
)

// Record is one record of a batch to be made, or as it was read.
type Record struct {
	Offset    int64 // of one that was read
	Timestamp int64 // ms
	Key       []byte
	Value     []byte // nil is a tombstone
	Headers   []kmsg.Header
}

// Batch is how a batch is made.
type Batch struct {
	Codec         kafkaproto.Codec
	Producer      int64 // 0: none
	Transactional bool
	LogAppendMs   int64 // 0: timestamps are the producers'
	Records       []Record
}

// Make gives the batch as a producer sends it, with base offset 0.
func (b *Batch) Make(tb testing.TB) kafkaproto.RecordBatch {
	tb.Helper()
	head := kmsg.RecordBatch{
		PartitionLeaderEpoch: 5, Magic: 2, LastOffsetDelta: int32(len(b.Records)) - 1, FirstTimestamp: b.Records[0].Timestamp,
		MaxTimestamp: -1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(b.Records)),
	}
	if b.Producer > 0 {
		head.ProducerID, head.ProducerEpoch, head.FirstSequence = b.Producer, 1, 0
	}
	if b.Transactional {
		head.Attributes |= 0x10
	}
	for i, r := range b.Records {
		head.MaxTimestamp = max(head.MaxTimestamp, r.Timestamp)
		head.Records = appendRecord(head.Records, i, r, head.FirstTimestamp)
	}
	const lengthAt, crcAt, uncounted = 8, 17, 12
	p := head.AppendTo(nil)
	binary.BigEndian.PutUint32(p[lengthAt:], uint32(len(p)-uncounted))
	batch := kafkaproto.RecordBatch(p)
	binary.BigEndian.PutUint32(p[crcAt:], batch.ComputeCRC())
	batch = batchtest.Compress(tb, batch, b.Codec)
	if b.LogAppendMs > 0 {
		batch.StampLogAppendTime(b.LogAppendMs)
	}
	return batch
}

func appendRecord(dst []byte, i int, r Record, base int64) []byte {
	body := kbin.AppendVarlong([]byte{0}, r.Timestamp-base)
	body = kbin.AppendVarint(body, int32(i))
	body = kbin.AppendVarintBytes(body, r.Key)
	body = kbin.AppendVarintBytes(body, r.Value)
	body = kbin.AppendVarint(body, int32(len(r.Headers)))
	for _, h := range r.Headers {
		body = kbin.AppendVarintString(body, h.Key)
		body = kbin.AppendVarintBytes(body, h.Value)
	}
	dst = kbin.AppendVarint(dst, int32(len(body)))
	return append(dst, body...)
}
