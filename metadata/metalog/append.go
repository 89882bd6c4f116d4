package metalog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"
)

func (t *tenure) Append(ctx context.Context, index uint64, payload []byte) (uint64, error) {
	switch {
	case t.broken != nil:
		return 0, fmt.Errorf("append after a failed one: %w", t.broken)
	case index != t.tail.Index+1:
		return 0, fmt.Errorf("append entry %d: the tail is %d", index, t.tail.Index)
	case len(payload) > MaxPayloadBytes:
		return 0, fmt.Errorf("append entry %d: %d bytes exceed the limit of %d", index, len(payload), MaxPayloadBytes)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()

	parts := split(payload, t.log.cfg.EntryBytes)
	for i, part := range parts {
		rec := Record{
			Entry: Entry{
				Index: t.tail.Index + 1, Tenure: t.id, First: i == 0, Last: i == len(parts)-1, Payload: part,
			},
			Nonce: rand.Uint64(),
			Total: t.tail.Total + int64(len(part)),
		}
		start := time.Now()
		if err := t.appendRecord(ctx, &rec); err != nil {
			t.broken = err
			return 0, fmt.Errorf("append entry %d: %w", rec.Index, err)
		}
		t.log.metrics.appendSeconds.Observe(time.Since(start).Seconds())
		t.log.metrics.appendedBytes.Add(float64(len(part)))
		t.tail = Tail{Index: rec.Index, Total: rec.Total}
		t.total.Store(rec.Total)
	}
	return t.tail.Index, nil
}

// appendRecord sends the same transaction until it is answered. A lost answer leaves the outcome unknown; the next
// answer resolves it, because the transaction can succeed only once: if its compare fails, either the entry is in,
// under our tenure and nonce, or it never will be (DESIGN.md, "Lost answers").
func (t *tenure) appendRecord(ctx context.Context, rec *Record) error {
	for wait := minBackoff; ; wait = min(2*wait, maxBackoff) {
		if !t.Valid() {
			return t.fenced(nil)
		}
		in, err := t.tryAppend(ctx, rec)
		if in {
			return nil
		}
		if err == nil || errors.Is(err, ErrCorrupt) || errors.Is(err, ErrUnsupported) {
			t.lose("append was refused", err)
			t.log.cfg.Lease.owners.refused(t.log.store.OwnerKey(), t.id)
			return t.fenced(err)
		}
		t.log.metrics.failedAttempts.Inc()
		t.log.cfg.Logger.Warn("append not answered", zap.Uint64("index", rec.Index), zap.Error(err))
		if sleep(ctx, wait) != nil {
			if t.ctx.Err() != nil {
				return t.fenced(err)
			}
			return fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
	}
}

// tryAppend is one attempt. Neither in nor an error: the store answered, and the entry is not in.
func (t *tenure) tryAppend(ctx context.Context, rec *Record) (in bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, t.log.cfg.Timing.Attempt)
	defer cancel()
	ok, existing, err := t.log.store.Append(ctx, t.id, t.tail, rec)
	if err != nil || ok {
		return ok && err == nil, err
	}
	return existing != nil && existing.Tenure == rec.Tenure && existing.Nonce == rec.Nonce, nil
}

// fenced is the error of a tenure that is over, with the last answer of the store.
func (t *tenure) fenced(err error) error {
	cause := context.Cause(t.ctx)
	if cause == nil {
		cause = fmt.Errorf("%w: the fence has fallen", ErrFenced)
	}
	if err == nil {
		return cause
	}
	return fmt.Errorf("%w: %w", cause, err)
}
