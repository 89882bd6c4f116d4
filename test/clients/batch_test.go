package clients

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// batchSpec says what a raw record batch is made of. Zero values give one good, uncompressed batch without a producer.
type batchSpec struct {
	records   []kmsg.Record // one with value "v" if none
	timestamp int64         // first and largest, ms
	producer  int64         // 0: none
	epoch     int16
	sequence  int32
	change    func(*kmsg.RecordBatch)
	corrupt   bool // a wrong checksum
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// raw encodes the batch, whose checksum is right unless corrupt.
func (s batchSpec) raw() []byte {
	records := s.records
	if records == nil {
		records = []kmsg.Record{{Key: []byte("k"), Value: []byte("v")}}
	}
	var encoded []byte
	for i := range records {
		r := records[i]
		r.OffsetDelta = int32(i)
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		encoded = r.AppendTo(encoded)
	}
	b := kmsg.RecordBatch{
		Magic: 2, PartitionLeaderEpoch: -1, LastOffsetDelta: int32(len(records) - 1), NumRecords: int32(len(records)),
		FirstTimestamp: s.timestamp, MaxTimestamp: s.timestamp, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		Records: encoded, Length: int32(49 + len(encoded)),
	}
	if s.producer != 0 {
		b.ProducerID, b.ProducerEpoch, b.FirstSequence = s.producer, s.epoch, s.sequence
	}
	if s.change != nil {
		s.change(&b)
	}
	out := b.AppendTo(nil)
	sum := crc32.Checksum(out[21:], castagnoli)
	if s.corrupt {
		sum++
	}
	binary.BigEndian.PutUint32(out[17:], sum)
	return out
}

// gzipped compresses a batch's records.
func gzipped(b *kmsg.RecordBatch) {
	var p bytes.Buffer
	w := gzip.NewWriter(&p)
	_, _ = w.Write(b.Records) // a buffer takes everything
	_ = w.Close()
	b.Attributes, b.Records, b.Length = b.Attributes|1, p.Bytes(), b.Length+int32(p.Len()-len(b.Records))
}

// produceTo is a Produce request of one partition, with the topic by name and by id.
func produceTo(topic string, id [16]byte, partition int32, records []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = topic, id
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, records
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// fetchFrom is a Fetch request of one partition without a session, with the topic by name and by id.
func fetchFrom(topic string, id [16]byte, partition int32, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = -1, 0, 0, 10<<20
	req.SessionEpoch = -1
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.TopicID = topic, id
	p := kmsg.NewFetchRequestTopicPartition()
	p.Partition, p.FetchOffset, p.PartitionMaxBytes = partition, offset, 1<<20
	p.CurrentLeaderEpoch, p.LogStartOffset = -1, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// listOffset is a ListOffsets request of one partition.
func listOffset(topic string, partition int32, timestamp int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = topic
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.Timestamp, p.CurrentLeaderEpoch = partition, timestamp, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// epochOf is an OffsetForLeaderEpoch request of one partition.
func epochOf(topic string, partition, epoch int32) *kmsg.OffsetForLeaderEpochRequest {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = topic
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition, p.LeaderEpoch, p.CurrentLeaderEpoch = partition, epoch, -1
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}
