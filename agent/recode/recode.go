// Package recode opens record batches, for the few topics that ask for it: compacted topics take no records without
// key, topics with a max.decompressed.message.bytes of their own take no record above it, and topics with a
// compression.type of their own store every batch in that codec (Kafka's LogValidator).
// Everything else is stored verbatim, and opened only to find a timestamp in it.
//
// Records are streamed through, and what they decompress to is bounded. What is held of them is what the decompressor
// needs: 8 MiB for each of a Recoder's turns and for Codecs, and more only for one batch of the process at a time (room.go);
// and batches that were compressed anew, HoldBytes of them in all, each until it was handed over.
package recode

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kerr"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/kafkaproto"
)

const (
	// MaxRecordErrors bounds the offending records that one request's answer lists, since a small compressed batch may have
	// millions. With the longest topic name they take about 6 MiB. Kafka lists all.
	MaxRecordErrors = 16384
	// messageErrors is how many of them the batch's error message repeats (Kafka's LogValidator.processRecordErrors).
	messageErrors = 3
)

const (
	// DefaultMaxRecordBytes bounds what the records of one batch may decompress to.
	DefaultMaxRecordBytes = 256 << 20
	// DefaultHoldBytes bounds what is held of batches that were compressed anew.
	DefaultHoldBytes = 16 << 20
	// maxBatchBytes bounds a batch that was compressed anew, whatever its topic allows: as much as a request may have
	// (Kafka's socket.request.max.bytes), so that none gets in that could not have been sent as it is stored.
	maxBatchBytes = 100 << 20
)

// Rules say what a topic asks of its batches.
type Rules struct {
	// Keys: records without key are refused (cleanup.policy has compact).
	Keys bool
	// MaxRecordBytes is max.decompressed.message.bytes: the largest record that a compressed batch may have. 0 is no limit.
	MaxRecordBytes int32
	// Compress: batches are stored with Codec, whatever they were sent with.
	Compress bool
	Codec    kafkaproto.Codec
	Level    int // of Codec; -1 for gzip is its default
	// MaxBytes is max.message.bytes, checked again on a batch that was compressed anew.
	MaxBytes int32
	// Partition names the topic and partition in messages, as Kafka does: topic-partition.
	Partition string
}

// Needs reports whether a batch of this codec has to be opened.
func (r *Rules) Needs(sent kafkaproto.Codec) bool {
	return r.Keys || r.limits(sent) || r.Recompresses(sent)
}

// limits reports whether the records of a batch of this codec have a largest size. As in Kafka, only those of compressed batches
// have one (DefaultRecordBatch.compressedIterator): max.message.bytes bounds the others.
func (r *Rules) limits(sent kafkaproto.Codec) bool {
	return r.MaxRecordBytes > 0 && sent != kafkaproto.NoCodec
}

// Recompresses reports whether a batch of this codec is compressed anew.
func (r *Rules) Recompresses(sent kafkaproto.Codec) bool { return r.Compress && r.Codec != sent }

// RecordError is one refused record.
type RecordError struct {
	Index   int32 // in the batch
	Message string
}

// RecordsError refuses a batch because of some of its records (INVALID_RECORD, KIP-467).
type RecordsError struct {
	Records []RecordError // in order; those beyond MaxRecordErrors of the request are counted only
	Total   int
}

// Error is Kafka's message.
func (e *RecordsError) Error() string {
	return fmt.Sprintf("One or more records have been rejected due to %d record errors in total, and only showing the first three errors at most: %v",
		e.Total, e.Records[:min(len(e.Records), messageErrors)])
}

// Unwrap gives the Kafka error, so that errors.As finds its code.
func (e *RecordsError) Unwrap() error { return kerr.InvalidRecord }

// Config bounds a Recoder's memory.
type Config struct {
	// MaxRecordBytes is what one batch may decompress to. Default DefaultMaxRecordBytes.
	MaxRecordBytes int64
	// HoldBytes bounds the batches that were compressed anew and are not handed over; a larger one is alone. Default
	// DefaultHoldBytes.
	HoldBytes int64
	// Registerer takes the metrics; nil: they are shown to nobody.
	Registerer prometheus.Registerer
}

// Recoder opens batches, a few at a time.
type Recoder struct {
	cfg     Config
	metrics *metrics
	turns   *semaphore.Weighted
	held    *semaphore.Weighted // bytes
}

// New builds a Recoder. It opens as many batches at the same time as there are processors, less one: a small batch may decompress to
// 256 MiB, and the requests of other clients need a processor meanwhile. Batches that take much memory wait for one another.
func New(cfg Config) *Recoder {
	if cfg.MaxRecordBytes <= 0 {
		cfg.MaxRecordBytes = DefaultMaxRecordBytes
	}
	if cfg.HoldBytes <= 0 {
		cfg.HoldBytes = DefaultHoldBytes
	}
	return &Recoder{
		cfg: cfg, metrics: newMetrics(cfg.Registerer), turns: semaphore.NewWeighted(int64(max(1, runtime.GOMAXPROCS(0)-1))),
		held: semaphore.NewWeighted(cfg.HoldBytes),
	}
}

// Apply checks a batch's records by the rules and calls take with the batch to store: the same one, or one that was compressed
// anew, which counts as held until take returns. The batch was validated (kafkaproto.Validate). errs bounds the
// offending records that are listed. Errors: *RecordsError; kafkaproto.BatchError for records that are not what the header
// says, or a batch that became too large; the context's.
//
// A caller holds at most one batch and waits for no other meanwhile, so a request is taken whatever it comes to in all. Kafka's
// brokers go from partition to partition too (ReplicaManager.appendRecordsToLocalLog).
func (c *Recoder) Apply(ctx context.Context, b kafkaproto.RecordBatch, r *Rules, errs int, take func(kafkaproto.RecordBatch)) error {
	var out kafkaproto.RecordBatch
	var kept int64
	err := withRoom(ctx, func(room int64) (err error) {
		out, kept, err = c.attempt(ctx, b, r, errs, room)
		return err
	})
	if err != nil {
		return err
	}
	defer c.held.Release(kept)
	take(out)
	return nil
}

// attempt is Apply within room. It returns how many bytes the batch keeps of HoldBytes.
func (c *Recoder) attempt(ctx context.Context, b kafkaproto.RecordBatch, r *Rules, errs int, room int64) (out kafkaproto.RecordBatch, kept int64, err error) {
	if !r.Recompresses(b.Codec()) {
		out, err = c.apply(ctx, b, r, 0, errs, room)
		return out, 0, err
	}
	// The header is written before anything is compared.
	most := max(min(int(r.MaxBytes), maxBatchBytes), kafkaproto.BatchOverhead)
	reserved, err := c.reserve(ctx, int64(most))
	if err != nil {
		return nil, 0, err
	}
	defer func() { c.held.Release(reserved - kept) }() // also if a decompressor panics
	if out, err = c.apply(ctx, b, r, most, errs, room); err == nil {
		kept = min(int64(cap(out)), reserved)
	}
	return out, kept, err
}

// reserve takes so much memory, or all there is if that is less.
func (c *Recoder) reserve(ctx context.Context, bytes int64) (reserved int64, err error) {
	reserved = min(bytes, c.cfg.HoldBytes)
	if c.held.TryAcquire(reserved) {
		return reserved, nil
	}
	c.metrics.waits.Inc()
	return reserved, c.held.Acquire(ctx, reserved)
}

// apply opens a batch and returns the one to store, of at most most bytes if it is compressed anew.
func (c *Recoder) apply(ctx context.Context, b kafkaproto.RecordBatch, r *Rules, most, errs int, room int64) (kafkaproto.RecordBatch, error) {
	if err := c.turns.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	defer c.turns.Release(1)
	source, err := reader(b.Codec(), b[kafkaproto.BatchOverhead:], c.cfg.MaxRecordBytes, room)
	if err != nil {
		return nil, broken(err)
	}
	defer source.Close()
	from := io.Reader(&bounded{r: source, left: c.cfg.MaxRecordBytes})
	if !r.Recompresses(b.Codec()) {
		return b, c.walk(from, b, r, errs)
	}
	out := newCapped(len(b), most)
	_, _ = out.Write(b[:kafkaproto.BatchOverhead])
	sink, err := writer(r.Codec, r.Level, out)
	if err != nil {
		return nil, fmt.Errorf("compress batch: %w", err)
	}
	if err := c.walk(io.TeeReader(from, sink), b, r, errs); err != nil {
		return nil, err
	}
	if err := sink.Close(); err != nil {
		return nil, fmt.Errorf("compress batch: %w", err)
	}
	if out.size > most {
		return nil, &kafkaproto.BatchError{Kafka: kerr.MessageTooLarge, Record: -1, Detail: fmt.Sprintf(
			"The record batch is %d bytes large after compression, which exceeds the maximum configured value of %d.", out.size, most)}
	}
	return finish(out.kept, r.Codec), nil
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
func (c *Recoder) walk(from io.Reader, b kafkaproto.RecordBatch, r *Rules, errs int) error {
	w := walker{r: from}
	if r.limits(b.Codec()) {
		w.most = int64(r.MaxRecordBytes)
	}
	refused := &RecordsError{}
	var message string // the same of all
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
		if refused.Total++; refused.Total == 1 {
			message = fmt.Sprintf("Compacted topic cannot accept message without key in topic partition %s.", r.Partition)
		}
		if len(refused.Records) < errs {
			refused.Records = append(refused.Records, RecordError{Index: i, Message: message})
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
	if errors.Is(err, errLarge) {
		return err
	}
	return &kafkaproto.BatchError{Kafka: kerr.InvalidRecord, Record: -1, Detail: "Found invalid records in the batch: " + err.Error()}
}
