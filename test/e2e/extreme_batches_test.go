package e2e

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/batchtest"
	"github.com/freshet-io/freshet/kafkaproto"
)

// extremeBatch is what one hostile Produce request has for a partition, and what it is answered.
type extremeBatch struct {
	name      string
	topic     string
	partition int32
	records   []byte
	want      *kerr.Error // nil: accepted
	kafka     string      // Apache Kafka's answer where it is another one; in parentheses where it cannot be compared
	txn       *string     // transactional id of the request
	silent    bool        // acks=0: an error closes the connection, as Kafka's brokers do
}

// answer is Freshet's answer in words.
func (e *extremeBatch) answer() string {
	switch {
	case e.silent:
		return errClosed.Error()
	case e.want != nil:
		return e.want.Message
	}
	return "accepted"
}

// Fields of a batch, by position.
const (
	atLength       = 8
	atMagic        = 16
	atAttributes   = 21
	atLastDelta    = 23
	atFirstTime    = 27
	atLargestTime  = 35
	atProducerID   = 43
	atEpoch        = 51
	atSequence     = 53
	atRecordCount  = 57
	extremeValue   = "extreme"
	defaultMaxSize = 1048588 // max.message.bytes
)

// batchOf encodes an uncompressed batch of one record per value, with key "k".
func batchOf(values ...string) kafkaproto.RecordBatch {
	var records []byte
	for i, v := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Key: []byte("k"), Value: []byte(v)}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		records = r.AppendTo(records)
	}
	now := time.Now().UnixMilli()
	b := kmsg.RecordBatch{
		Magic: 2, PartitionLeaderEpoch: -1, NumRecords: int32(len(values)), LastOffsetDelta: int32(len(values) - 1),
		FirstTimestamp: now, MaxTimestamp: now, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		Records: records, Length: int32(49 + len(records)),
	}
	return sealed(b.AppendTo(nil))
}

func sealed(b kafkaproto.RecordBatch) kafkaproto.RecordBatch {
	binary.BigEndian.PutUint32(b[17:], b.ComputeCRC())
	return b
}

// set is a field of a batch with the value to give it.
type set struct {
	at, size int
	value    int64
}

// with changes fields of a batch and gives it the right checksum.
func with(b kafkaproto.RecordBatch, fields ...set) kafkaproto.RecordBatch {
	for _, f := range fields {
		for i := range f.size {
			b[f.at+i] = byte(f.value >> (8 * (f.size - 1 - i)))
		}
	}
	return sealed(b)
}

// changed is a batch of one record with fields changed.
func changed(fields ...set) kafkaproto.RecordBatch { return with(batchOf(extremeValue), fields...) }

// from is a batch of an idempotent producer.
func from(producerID int64, epoch int16, sequence int32, fields ...set) kafkaproto.RecordBatch {
	return changed(append([]set{{atProducerID, 8, producerID}, {atEpoch, 2, int64(epoch)}, {atSequence, 4, int64(sequence)}}, fields...)...)
}

// packed is a batch whose records are the given bytes, which are said to be of a codec.
func packed(codec kafkaproto.Codec, payload []byte, fields ...set) kafkaproto.RecordBatch {
	b := append(batchOf(extremeValue)[:kafkaproto.BatchOverhead:kafkaproto.BatchOverhead], payload...)
	return with(b, append([]set{{atLength, 4, int64(len(b) - 12)}, {atAttributes, 2, int64(codec)}}, fields...)...)
}

func gzipped(t *testing.T, write func(io.Writer) error) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	require.NoError(t, err)
	require.NoError(t, write(w))
	require.NoError(t, w.Close())
	return out.Bytes()
}

// bomb is a gzip batch of one record that has more bytes than may be opened (recode.DefaultMaxRecordBytes).
func bomb(t *testing.T) kafkaproto.RecordBatch {
	t.Helper()
	const size = 300 << 20
	body := append([]byte{0, 0, 0}, 2, 'k') // attributes, both deltas, key
	body = binary.AppendVarint(body, size)
	return packed(kafkaproto.Gzip, gzipped(t, func(w io.Writer) error {
		if _, err := w.Write(append(binary.AppendVarint(nil, int64(len(body)+size+1)), body...)); err != nil {
			return err
		}
		zeros := make([]byte, 1<<20)
		for range size / len(zeros) {
			if _, err := w.Write(zeros); err != nil {
				return err
			}
		}
		_, err := w.Write([]byte{0}) // headers
		return err
	}))
}

// ofSize is a batch of exactly so many bytes.
func ofSize(size int) kafkaproto.RecordBatch {
	value := bytes.Repeat([]byte{'x'}, size)
	for {
		b := batchOf(string(value))
		if len(b) == size {
			return b
		}
		value = value[:len(value)-(len(b)-size)]
	}
}

// extremeBatches returns the batches of each kind. Those of a row are sent one after the other.
func extremeBatches(t *testing.T) (rows [][]extremeBatch) {
	t.Helper()
	add := func(topic, name string, records []byte, want *kerr.Error, kafka ...string) {
		e := extremeBatch{name: name, topic: topic, partition: int32(len(rows) % extremePartitions), records: records, want: want}
		if len(kafka) > 0 {
			e.kafka = kafka[0]
		}
		rows = append(rows, []extremeBatch{e})
	}
	last := func() *extremeBatch { return &rows[len(rows)-1][0] }
	refusedHeaders(add)
	refusedFrames(add)
	refusedPayloads(t, add)
	extremeTimes(add)
	openedBatches(t, add)
	add("plain", "partition that is not there", batchOf(extremeValue), kerr.UnknownTopicOrPartition)
	last().partition = 99
	add("plain", "partition -1", batchOf(extremeValue), kerr.UnknownTopicOrPartition)
	last().partition = -1
	add("absent", "topic that is not there", batchOf(extremeValue), kerr.UnknownTopicOrPartition)
	add("plain", "transactional, request without transactional id", from(1<<40, 0, 0, set{atAttributes, 2, 0x10}),
		kerr.TransactionalIDAuthorizationFailed)
	add("plain", "transactional, without transaction", from(1<<40, 0, 0, set{atAttributes, 2, 0x10}), kerr.InvalidProducerIDMapping)
	unknown := "unknown"
	last().txn = &unknown
	add("plain", "acks=0, wrong checksum", wrongChecksum(), kerr.CorruptMessage)
	last().silent = true
	return append(rows, wrapping(t))
}

func wrongChecksum() []byte {
	b := batchOf(extremeValue)
	b[len(b)-1] ^= 1
	return b
}

type addBatch func(topic, name string, records []byte, want *kerr.Error, kafka ...string)

func refusedHeaders(add addBatch) {
	add("plain", "0 records", changed(set{atRecordCount, 4, 0}), kerr.InvalidRecord)
	add("plain", "-1 records", changed(set{atRecordCount, 4, -1}), kerr.InvalidRecord)
	add("plain", "2^31-1 records in a few bytes", changed(set{atRecordCount, 4, math.MaxInt32}, set{atLastDelta, 4, math.MaxInt32 - 1}), kerr.InvalidRecord)
	add("plain", "last offset delta 5 of 1 record", changed(set{atLastDelta, 4, 5}), kerr.InvalidRecord)
	add("plain", "last offset delta -1", changed(set{atLastDelta, 4, -1}), kerr.InvalidRecord)
	add("plain", "last offset delta 2^31-1", changed(set{atLastDelta, 4, math.MaxInt32}), kerr.InvalidRecord)
	add("plain", "base offset 2^63-1", changed(set{0, 8, math.MaxInt64}), kerr.InvalidRecord)
	add("plain", "wrong checksum", wrongChecksum(), kerr.CorruptMessage)
	add("plain", "magic 0", changed(set{atMagic, 1, 0}), kerr.InvalidRecord)
	add("plain", "magic 1", changed(set{atMagic, 1, 1}), kerr.InvalidRecord)
	add("plain", "magic 3", changed(set{atMagic, 1, 3}), kerr.CorruptMessage)
	add("plain", "attribute bit 7", changed(set{atAttributes, 2, 1 << 7}), nil)
	add("plain", "attribute bit 15", changed(set{atAttributes, 2, 1 << 15}), nil)
	add("plain", "codec 7", changed(set{atAttributes, 2, 7}), kerr.UnsupportedCompressionType, "UNKNOWN_SERVER_ERROR")
	add("plain", "control batch", changed(set{atAttributes, 2, 0x20}), kerr.InvalidRecord)
	add("plain", "delete horizon", changed(set{atAttributes, 2, 0x40}), kerr.InvalidRecord, "accepted")
	add("plain", "epoch -1 with a producer id", from(1<<41, -1, 0), kerr.InvalidProducerEpoch, "accepted")
	add("plain", "epoch -2^15 with a producer id", from(1<<41+1, math.MinInt16, 0), kerr.InvalidProducerEpoch)
	add("plain", "sequence -1 with a producer id", from(1<<41+2, 0, -1), kerr.InvalidRecord)
	add("plain", "sequence 2^31-1 of a new producer", from(1<<41+3, 0, math.MaxInt32), kerr.NotLeaderForPartition, "accepted")
	add("plain", "producer id never given out", from(1<<62, 0, 0), nil)
	add("plain", "producer id 2^63-1, epoch 2^15-1", from(math.MaxInt64, math.MaxInt16, 0), nil)
	add("plain", "producer id -2", changed(set{atProducerID, 8, -2}), nil)
}

func refusedFrames(add addBatch) {
	whole := batchOf(extremeValue)
	add("plain", "max.message.bytes", ofSize(defaultMaxSize), nil)
	add("plain", "max.message.bytes + 1", ofSize(defaultMaxSize+1), kerr.MessageTooLarge)
	add("plain", "length short by one", changed(set{atLength, 4, int64(len(whole) - 13)}), kerr.InvalidRecord, "CORRUPT_MESSAGE")
	add("plain", "length long by one", changed(set{atLength, 4, int64(len(whole) - 11)}), kerr.InvalidRecord)
	add("plain", "length 0", changed(set{atLength, 4, 0}), kerr.CorruptMessage)
	add("plain", "length -1", changed(set{atLength, 4, -1}), kerr.CorruptMessage)
	add("plain", "length 2^31-1", changed(set{atLength, 4, math.MaxInt32}), kerr.InvalidRecord, "UNKNOWN_SERVER_ERROR")
	add("plain", "two batches", append(batchOf(extremeValue), batchOf(extremeValue)...), kerr.InvalidRecord)
	add("plain", "empty records", []byte{}, kerr.InvalidRecord)
	add("plain", "null records", nil, kerr.InvalidRecord, "(no answer)")
	add("plain", "half a batch", whole[:len(whole)/2], kerr.InvalidRecord)
	add("plain", "a batch without its last byte", whole[:len(whole)-1], kerr.InvalidRecord)
}

// refusedPayloads adds batches with bytes behind their last record. Each goes to a topic that stores batches as sent and to two that open
// them.
func refusedPayloads(t *testing.T, add addBatch) {
	t.Helper()
	records := []byte(batchOf(extremeValue, extremeValue)[kafkaproto.BatchOverhead:])
	one := records[:len(records)/2]
	compress := func(codec kafkaproto.Codec, p []byte) []byte { return batchtest.CompressRecords(t, p, codec) }
	two := []set{{atRecordCount, 4, 2}, {atLastDelta, 4, 1}}
	for _, topic := range []string{"unopened", "packed", "compacted"} {
		add(topic, "bytes behind the records", packed(kafkaproto.NoCodec, append(bytes.Clone(one), 0)), kerr.InvalidRecord)
		add(topic, "a record length of six bytes", packed(kafkaproto.NoCodec, lengthOfSixBytes(one)), kerr.InvalidRecord, "UNKNOWN_SERVER_ERROR")
		add(topic, "a record too many", packed(kafkaproto.NoCodec, records), kerr.InvalidRecord)
		add(topic, "a record too few", packed(kafkaproto.NoCodec, one, two...), kerr.InvalidRecord)
		add(topic, "two frames, lz4", packed(kafkaproto.LZ4, append(compress(kafkaproto.LZ4, one), compress(kafkaproto.LZ4, records[len(one):])...), two...),
			kerr.InvalidRecord)
		add(topic, "a byte behind the frame, lz4", packed(kafkaproto.LZ4, append(compress(kafkaproto.LZ4, records), 0), two...), kerr.InvalidRecord, "accepted")
		if topic != "packed" { // its codec is zstd, so it stores zstd as sent
			add(topic, "two frames, zstd", packed(kafkaproto.Zstd, append(compress(kafkaproto.Zstd, one), compress(kafkaproto.Zstd, records[len(one):])...), two...), nil)
			add(topic, "a byte behind the frame, zstd", packed(kafkaproto.Zstd, append(compress(kafkaproto.Zstd, records), 0), two...),
				kerr.InvalidRecord, "UNKNOWN_SERVER_ERROR")
		}
	}
}

// lengthOfSixBytes writes the length of a record with six bytes instead of as few as possible.
func lengthOfSixBytes(record []byte) []byte {
	length, n := binary.Uvarint(record)
	long := make([]byte, 0, len(record)+6)
	for range 5 {
		long = append(long, byte(length)|0x80)
		length >>= 7
	}
	return append(append(long, byte(length)), record[n:]...)
}

func extremeTimes(add addBatch) {
	const most, least = math.MaxInt64, math.MinInt64
	now := time.Now().UnixMilli()
	add("plain", "first timestamp 2^63-1", changed(set{atFirstTime, 8, most}), kerr.InvalidTimestamp)
	add("plain", "largest timestamp 2^63-1", changed(set{atLargestTime, 8, most}), kerr.InvalidTimestamp, "accepted")
	add("plain", "two hours ahead", changed(set{atFirstTime, 8, now + 7200_000}, set{atLargestTime, 8, now + 7200_000}), kerr.InvalidTimestamp)
	add("plain", "claims LogAppendTime", changed(set{atAttributes, 2, 8}), kerr.InvalidTimestamp, "accepted")
	for name, fields := range map[string][]set{
		"both timestamps 2^63-1":   {{atFirstTime, 8, most}, {atLargestTime, 8, most}},
		"first timestamp 2^63-1":   {{atFirstTime, 8, most}},
		"largest timestamp 2^63-1": {{atLargestTime, 8, most}},
		"first timestamp -2":       {{atFirstTime, 8, -2}},
		"both timestamps -1":       {{atFirstTime, 8, -1}, {atLargestTime, 8, -1}},
		"largest timestamp -2":     {{atLargestTime, 8, -2}},
		"both timestamps 0":        {{atFirstTime, 8, 0}, {atLargestTime, 8, 0}},
	} {
		add("open", name, changed(fields...), nil)
		add("stamped", name, changed(fields...), nil)
	}
	add("stamped", "both timestamps -2^63", changed(set{atFirstTime, 8, least}, set{atLargestTime, 8, least}), nil)
}

// openedBatches are those whose records matter: topics with a compression.type and compacted ones open them. Elsewhere they are
// stored as sent, which readers of that partition alone notice.
func openedBatches(t *testing.T, add addBatch) {
	t.Helper()
	garbage := bytes.Repeat([]byte("garbage!"), 20)
	beyond := batchOf(extremeValue)
	beyond[kafkaproto.BatchOverhead+3] = 0x7e // offset delta 63 of a batch of one record
	sealed(beyond)
	good := gzipped(t, func(w io.Writer) error {
		_, err := w.Write(batchOf(extremeValue)[kafkaproto.BatchOverhead:])
		return err
	})
	claims := []set{{atRecordCount, 4, math.MaxInt32}, {atLastDelta, 4, math.MaxInt32 - 1}}
	keyless := kmsg.Record{Value: []byte(extremeValue)}
	keyless.Length = int32(len(keyless.AppendTo(nil)) - 1)
	for _, topic := range []string{"packed", "compacted"} {
		add(topic, "gzip", packed(kafkaproto.Gzip, good), nil)
		add(topic, "garbage for gzip", packed(kafkaproto.Gzip, garbage), kerr.InvalidRecord, "UNKNOWN_SERVER_ERROR")
		add(topic, "garbage for snappy", packed(kafkaproto.Snappy, garbage), kerr.InvalidRecord, "UNKNOWN_SERVER_ERROR")
		add(topic, "garbage for lz4", packed(kafkaproto.LZ4, garbage), kerr.InvalidRecord, "UNKNOWN_SERVER_ERROR")
		add(topic, "2^31-1 records claimed, gzip", packed(kafkaproto.Gzip, good, claims...), kerr.InvalidRecord)
		add(topic, "offset delta beyond the batch", beyond, kerr.InvalidRecord, "accepted")
		add(topic, "gzip that becomes 300 MiB", bomb(t), kerr.InvalidRecord, "(by its heap)")
	}
	add("compacted", "garbage for zstd", packed(kafkaproto.Zstd, garbage), kerr.InvalidRecord, "UNKNOWN_SERVER_ERROR")
	add("compacted", "record without key", packed(kafkaproto.NoCodec, keyless.AppendTo(nil)), kerr.InvalidRecord)
	for _, codec := range []kafkaproto.Codec{kafkaproto.Gzip, kafkaproto.LZ4, kafkaproto.Zstd} {
		add("unopened", "garbage for "+codec.String(), packed(codec, garbage), kerr.InvalidRecord, "UNKNOWN_SERVER_ERROR")
	}
	add("unopened", "garbage for snappy", packed(kafkaproto.Snappy, garbage), nil, "UNKNOWN_SERVER_ERROR")
	add("unopened", "2^31-1 records claimed, gzip", packed(kafkaproto.Gzip, good, claims...), nil, "INVALID_RECORD")
	add("unopened", "offset delta beyond the batch", beyond, nil)
	add("unopened", "gzip that becomes 300 MiB", bomb(t), nil, "(by its heap)")
}

// wrapping lets a producer's sequence wrap: its first batch claims 2^31-1 records, the second one has the last sequence and 0.
func wrapping(t *testing.T) []extremeBatch {
	t.Helper()
	const producerID = 1 << 42
	good := gzipped(t, func(w io.Writer) error {
		_, err := w.Write(batchOf(extremeValue)[kafkaproto.BatchOverhead:])
		return err
	})
	id := func(sequence int64) []set {
		return []set{{atProducerID, 8, producerID}, {atEpoch, 2, 0}, {atSequence, 4, sequence}}
	}
	return []extremeBatch{
		{name: "sequences 0 to 2^31-2 claimed", topic: "unopened", kafka: "INVALID_RECORD", records: packed(kafkaproto.Gzip, good,
			append(id(0), set{atRecordCount, 4, math.MaxInt32}, set{atLastDelta, 4, math.MaxInt32 - 1})...)},
		{name: "sequences 2^31-1 and 0", topic: "unopened", records: with(batchOf(extremeValue, extremeValue), id(math.MaxInt32)...)},
		{name: "sequence 1", topic: "unopened", records: changed(id(1)...)},
		{name: "sequence 1 again", topic: "unopened", records: changed(id(1)...)},
	}
}
