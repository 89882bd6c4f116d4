package recode

import (
	"context"
	"errors"

	"github.com/freshet-io/freshet/kafkaproto"
)

// Hold is what one request has of batches that were compressed anew, however many it asks for. All of a Recoder's share one
// memory, HoldBytes. Who would have to wait for it, or for the large turn (room.go), hands over what it holds first, so that
// nobody holds any who waits for either, and each who holds any comes to the end of a batch and of handing over: no two wait
// for each other. It is not safe for concurrent use.
//
// So a request is taken whatever it comes to in all, as by Kafka's brokers, which go from partition to partition
// (ReplicaManager.appendRecordsToLocalLog) and have no error for a request that becomes too large inside.
type Hold struct {
	recoder  *Recoder
	handOver func()
	bytes    int64
	errs     int // offending records that were listed
}

// Hold begins with nothing. handOver takes all batches so far, if there are any, to where they no longer count; Apply calls
// it before it waits. Free ends the Hold.
func (c *Recoder) Hold(handOver func()) *Hold { return &Hold{recoder: c, handOver: handOver} }

// Apply checks a batch's records by the rules and gives the batch to store: the same one, or one of its own memory if
// it was compressed anew, which is the Hold's. The batch was validated (kafkaproto.Validate). Errors: *RecordsError;
// kafkaproto.BatchError for records that are not what the header says, or a batch that became too large; the context's.
func (h *Hold) Apply(ctx context.Context, b kafkaproto.RecordBatch, r *Rules) (kafkaproto.RecordBatch, error) {
	out, err := h.apply(ctx, b, r)
	var refused *RecordsError
	if errors.As(err, &refused) {
		h.errs += len(refused.Records)
	}
	return out, err
}

func (h *Hold) apply(ctx context.Context, b kafkaproto.RecordBatch, r *Rules) (kafkaproto.RecordBatch, error) {
	if large(b) {
		h.yield()
	}
	leave, err := enterLarge(ctx, b)
	if err != nil {
		return nil, err
	}
	defer leave()
	if !r.recompress(b) {
		return h.recoder.apply(ctx, b, r, 0, MaxRecordErrors-h.errs)
	}
	// The header is written before anything is compared.
	most := max(min(int(r.MaxBytes), maxBatchBytes), kafkaproto.BatchOverhead)
	reserved, err := h.reserve(ctx, int64(most))
	if err != nil {
		return nil, err
	}
	kept := int64(0)
	defer func() { // also if a decompressor panics
		h.recoder.held.Release(reserved - kept)
		h.bytes += kept
	}()
	out, err := h.recoder.apply(ctx, b, r, most, MaxRecordErrors-h.errs)
	kept = min(int64(cap(out)), reserved)
	return out, err
}

// reserve takes so much memory, or all there is if that is less.
func (h *Hold) reserve(ctx context.Context, bytes int64) (reserved int64, err error) {
	reserved = min(bytes, h.recoder.cfg.HoldBytes)
	if h.recoder.held.TryAcquire(reserved) {
		return reserved, nil
	}
	h.recoder.metrics.waits.Inc()
	h.yield()
	return reserved, h.recoder.held.Acquire(ctx, reserved)
}

// yield lets go of what is held, before what may be a wait.
func (h *Hold) yield() {
	h.handOver()
	h.Free()
}

// Free gives back the memory of all batches that Apply gave: they are handed over.
func (h *Hold) Free() {
	h.recoder.held.Release(h.bytes)
	h.bytes = 0
}
