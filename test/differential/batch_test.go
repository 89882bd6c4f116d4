package differential

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// head is what a batch says of its producer.
type head struct {
	producer      int64
	epoch         int16
	sequence      int32
	transactional bool
}

// transactionalBit is the attribute of transactional batches.
const transactionalBit = 0x10

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batch encodes a batch of one record.
func batch(h head, timestamp int64) []byte {
	r := kmsg.Record{Key: []byte("k"), Value: []byte("v")}
	r.Length = int32(len(r.AppendTo(nil)) - 1)
	records := r.AppendTo(nil)
	b := kmsg.RecordBatch{
		Magic: 2, PartitionLeaderEpoch: -1, NumRecords: 1, FirstTimestamp: timestamp, MaxTimestamp: timestamp,
		ProducerID: h.producer, ProducerEpoch: h.epoch, FirstSequence: h.sequence,
		Records: records, Length: int32(49 + len(records)),
	}
	if h.transactional {
		b.Attributes |= transactionalBit
	}
	out := b.AppendTo(nil)
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], castagnoli))
	return out
}

// batchHead reads the producer of an encoded batch.
func batchHead(p []byte) head {
	var b kmsg.RecordBatch
	if err := b.ReadFrom(p); err != nil {
		return head{producer: -1}
	}
	return head{b.ProducerID, b.ProducerEpoch, b.FirstSequence, b.Attributes&transactionalBit != 0}
}
