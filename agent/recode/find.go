package recode

import (
	"context"
	"fmt"

	"github.com/freshet-io/freshet/kafkaproto"
)

// Position is where a record is.
type Position struct {
	Offset    int64
	Timestamp int64 // ms
}

// Find returns the first record of a stored batch that has at least a timestamp (ms) and an offset; false if there is
// none. Errors: kafkaproto.ErrCorrupt where the records are not what the header says; the context's.
func (c *Recoder) Find(ctx context.Context, b kafkaproto.RecordBatch, timestamp, offset int64) (found Position, ok bool, err error) {
	err = c.positions(ctx, b, func(at Position) bool {
		if ok = at.Timestamp >= timestamp && at.Offset >= offset; ok {
			found = at
		}
		return !ok
	})
	return found, ok, err
}

// FindLargest returns the first of the records with the largest timestamp (ms) of a stored batch, whatever its header
// says; false if there are no records. Errors are those of Find.
func (c *Recoder) FindLargest(ctx context.Context, b kafkaproto.RecordBatch) (found Position, ok bool, err error) {
	err = c.positions(ctx, b, func(at Position) bool {
		if !ok || at.Timestamp > found.Timestamp {
			found, ok = at, true
		}
		return true
	})
	return found, ok, err
}

// positions calls yield with the position of each record until it returns false. In the large turn it begins again.
func (c *Recoder) positions(ctx context.Context, b kafkaproto.RecordBatch, yield func(Position) bool) error {
	return withRoom(ctx, func(room int64) error { return c.positionsWithin(ctx, b, room, yield) })
}

func (c *Recoder) positionsWithin(ctx context.Context, b kafkaproto.RecordBatch, room int64, yield func(Position) bool) error {
	if err := c.turns.Acquire(ctx, 1); err != nil {
		return err
	}
	defer c.turns.Release(1)
	source, err := reader(b.Codec(), b[kafkaproto.BatchOverhead:], c.cfg.MaxRecordBytes, room)
	if err != nil {
		return corrupt(err)
	}
	defer source.Close()
	w := walker{r: &bounded{r: source, left: c.cfg.MaxRecordBytes}}
	for i := range b.RecordCount() {
		r, err := w.record(i)
		if err == nil && (r.offset < 0 || r.offset > int64(b.LastOffsetDelta())) {
			err = fmt.Errorf("record %d: offset delta %d", i, r.offset)
		}
		if err != nil {
			return corrupt(err)
		}
		at := Position{Offset: b.BaseOffset() + r.offset, Timestamp: b.BaseTimestamp() + r.timestamp}
		if b.LogAppendTime() {
			at.Timestamp = b.MaxTimestamp()
		}
		if !yield(at) {
			return nil
		}
	}
	if err := w.end(); err != nil {
		return corrupt(err)
	}
	return nil
}

func corrupt(err error) error { return fmt.Errorf("%w: %w", kafkaproto.ErrCorrupt, err) }
