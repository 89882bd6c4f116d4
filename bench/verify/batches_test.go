package verify

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// splitBatches cuts what a partition was sent or answered into its batches.
func splitBatches(records []byte) (batches [][]byte) {
	for len(records) >= 12 {
		n := 12 + int(binary.BigEndian.Uint32(records[8:]))
		if n > len(records) {
			break
		}
		batches = append(batches, records[:n])
		records = records[n:]
	}
	return batches
}

func baseOffset(batch []byte) int64 { return int64(binary.BigEndian.Uint64(batch)) }

func isControl(batch []byte) bool { return batch[22]&0x20 != 0 }

// change decodes a batch, lets do change its records, and encodes it with a right checksum.
func change(batch []byte, do func(b *kmsg.RecordBatch, records []kmsg.Record) []kmsg.Record) []byte {
	var b kmsg.RecordBatch
	if err := b.ReadFrom(batch); err != nil {
		panic(err)
	}
	records := make([]kmsg.Record, b.NumRecords)
	rest := b.Records
	for i := range records {
		size, n := binary.Varint(rest)
		if err := records[i].ReadFrom(rest[:n+int(size)]); err != nil {
			panic(err)
		}
		rest = rest[n+int(size):]
	}
	records = do(&b, records)
	b.Records, b.NumRecords = nil, int32(len(records))
	for _, r := range records {
		r.Length = 0
		r.Length = int32(len(r.AppendTo(nil)) - 1) // the length itself takes one byte while it is 0
		b.Records = r.AppendTo(b.Records)
	}
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	b.CRC = int32(crc32.Checksum(b.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// withoutProducer takes the idempotence out of a batch, so that the broker takes whatever is made of it.
func withoutProducer(b *kmsg.RecordBatch, records []kmsg.Record) []kmsg.Record {
	b.ProducerID, b.ProducerEpoch, b.FirstSequence = -1, -1, -1
	return records
}

// swap exchanges the contents of the first two records.
func swap(records []kmsg.Record) []kmsg.Record {
	records = slices.Clone(records)
	records[0].Key, records[1].Key = records[1].Key, records[0].Key
	records[0].Value, records[1].Value = records[1].Value, records[0].Value
	return records
}

// produced calls do with each partition of a produce request.
func produced(req kmsg.Request, do func(p *kmsg.ProduceRequestTopicPartition)) {
	r, ok := req.(*kmsg.ProduceRequest)
	if !ok {
		return
	}
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			do(&r.Topics[i].Partitions[j])
		}
	}
}

// fetched calls do with each partition of a fetch answer.
func fetched(resp kmsg.Response, do func(p *kmsg.FetchResponseTopicPartition)) {
	r, ok := resp.(*kmsg.FetchResponse)
	if !ok {
		return
	}
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			do(&r.Topics[i].Partitions[j])
		}
	}
}
