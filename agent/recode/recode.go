// Package recode opens record batches, for the few topics that ask for it: compacted topics take no records without
// key, and topics with a compression.type of their own store every batch in that codec (Kafka's LogValidator).
// Everything else is stored verbatim, and opened only to find a timestamp in it.
//
// Records are streamed through, and what they decompress to is bounded. What is held of them is what the decompressor
// needs: 8 MiB for each of a Recoder's turns and for Codecs, and more only for one batch of the process at a time (room.go).
package recode

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/kafkaproto"
)

// maxRecordErrors is how many offending records an answer names (Kafka's LogValidator).
const maxRecordErrors = 3

// DefaultMaxRecordBytes bounds what the records of one batch may decompress to.
const DefaultMaxRecordBytes = 256 << 20

// Rules say what a topic asks of its batches.
type Rules struct {
	// Keys: records without key are refused (cleanup.policy has compact).
	Keys bool
	// Compress: batches are stored with Codec, whatever they were sent with.
	Compress bool
	Codec    kafkaproto.Codec
	Level    int // of Codec; -1 for gzip is its default
	// MaxBytes is max.message.bytes, checked again on a batch that was compressed anew.
	MaxBytes int32
	// Partition names the topic and partition in messages, as Kafka does: topic-partition.
	Partition string
}

// Needs tells whether a batch of this codec has to be opened.
func (r *Rules) Needs(sent kafkaproto.Codec) bool { return r.Keys || r.Compress && r.Codec != sent }

// RecordError is one refused record.
type RecordError struct {
	Index   int32 // in the batch
	Message string
}

// RecordsError refuses a batch because of some of its records (INVALID_RECORD, KIP-467).
type RecordsError struct {
	Records []RecordError // at least one, in order; those beyond the first few are counted only
	Total   int
}

// Error is Kafka's message.
func (e *RecordsError) Error() string {
	return fmt.Sprintf("One or more records have been rejected due to %d record errors in total, and only showing the first three errors at most: %v",
		e.Total, e.Records)
}

// Unwrap gives the Kafka error, so that errors.As finds its code.
func (e *RecordsError) Unwrap() error { return kerr.InvalidRecord }

// Recoder opens batches, a few at a time.
type Recoder struct {
	maxRecordBytes int64
	turns          *semaphore.Weighted
}

// New builds a Recoder. maxRecordBytes bounds what one batch may decompress to; 0 means DefaultMaxRecordBytes. As
// many batches are opened at the same time as there are processors; those that take much memory wait for one another.
func New(maxRecordBytes int64) *Recoder {
	if maxRecordBytes <= 0 {
		maxRecordBytes = DefaultMaxRecordBytes
	}
	return &Recoder{maxRecordBytes: maxRecordBytes, turns: semaphore.NewWeighted(int64(runtime.GOMAXPROCS(0)))}
}

// Apply checks a batch's records by the rules and gives the batch to store: the same one, or one of its own memory if
// it was compressed anew. The batch was validated (kafkaproto.Validate). Errors: *RecordsError; kafkaproto.BatchError
// for records that are not what the header says, or a batch that became too large; the context's.
func (c *Recoder) Apply(ctx context.Context, b kafkaproto.RecordBatch, r *Rules) (kafkaproto.RecordBatch, error) {
	leave, err := c.enter(ctx, b)
	if err != nil {
		return nil, err
	}
	defer leave()
	source, err := reader(b.Codec(), b[kafkaproto.BatchOverhead:], c.maxRecordBytes)
	if err != nil {
		return nil, broken(err)
	}
	defer source.Close()
	from := io.Reader(&bounded{r: source, left: c.maxRecordBytes})
	if !r.Compress || r.Codec == b.Codec() {
		return b, c.walk(from, b, r)
	}
	out := capped{most: int(r.MaxBytes)}
	out.kept.Grow(min(len(b), out.most))
	_, _ = out.Write(b[:kafkaproto.BatchOverhead])
	sink, err := writer(r.Codec, r.Level, &out)
	if err != nil {
		return nil, fmt.Errorf("compress batch: %w", err)
	}
	if err := c.walk(io.TeeReader(from, sink), b, r); err != nil {
		return nil, err
	}
	if err := sink.Close(); err != nil {
		return nil, fmt.Errorf("compress batch: %w", err)
	}
	if out.size > out.most {
		return nil, &kafkaproto.BatchError{Kafka: kerr.MessageTooLarge, Record: -1, Detail: fmt.Sprintf(
			"The record batch is %d bytes large after compression, which exceeds the maximum configured value of %d.", out.size, out.most)}
	}
	return finish(out.kept.Bytes(), r.Codec), nil
}

// capped keeps the first bytes that are written to it, as many as a batch may have, and counts the others: a batch that is
// too large is refused all the same, but for what is wrong with its records first.
type capped struct {
	kept       bytes.Buffer
	most, size int // bytes
}

func (c *capped) Write(p []byte) (int, error) {
	c.size += len(p)
	c.kept.Write(p[:min(len(p), max(c.most-c.kept.Len(), 0))])
	return len(p), nil
}

// finish completes the header of a batch that was compressed anew.
func finish(p []byte, codec kafkaproto.Codec) kafkaproto.RecordBatch {
	b := kafkaproto.RecordBatch(p)
	const lengthAt, crcAt, attributesAt, codecBits, uncounted = 8, 17, 21, 7, 12
	binary.BigEndian.PutUint32(b[lengthAt:], uint32(len(b)-uncounted))
	binary.BigEndian.PutUint16(b[attributesAt:], uint16(b.Attributes())&^codecBits|uint16(codec))
	binary.BigEndian.PutUint32(b[crcAt:], b.ComputeCRC())
	return b
}

// walk reads every record: as many as the header says, to the end, each with a key if the rules want one.
func (c *Recoder) walk(from io.Reader, b kafkaproto.RecordBatch, r *Rules) error {
	w := walker{r: from}
	refused := &RecordsError{}
	for i := range b.RecordCount() {
		one, err := w.record(i)
		if err == nil && one.offset != int64(i) {
			err = fmt.Errorf("record %d: offset delta %d", i, one.offset)
		}
		if err != nil {
			return broken(err)
		}
		if one.hasKey || !r.Keys {
			continue
		}
		refused.Total++
		if len(refused.Records) < maxRecordErrors {
			refused.Records = append(refused.Records, RecordError{Index: i, Message: fmt.Sprintf(
				"Compacted topic cannot accept message without key in topic partition %s.", r.Partition)})
		}
	}
	if err := w.end(); err != nil {
		return broken(err)
	}
	if refused.Total > 0 {
		return refused
	}
	return nil
}

// errTooLong: the records decompress to more than the bound.
var errTooLong = errors.New("records decompress to too many bytes")

// broken refuses a batch whose records are not what its header says.
func broken(err error) error {
	return &kafkaproto.BatchError{Kafka: kerr.InvalidRecord, Record: -1, Detail: "Found invalid records in the batch: " + err.Error()}
}
