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

// Find gives the first record of a stored batch that has at least a timestamp (ms) and an offset; false if there is none.
// Errors: kafkaproto.ErrCorrupt where the records are not what the header says; the context's.
func (c *Recoder) Find(ctx context.Context, b kafkaproto.RecordBatch, timestamp, offset int64) (Position, bool, error) {
	leave, err := c.enter(ctx, b)
	if err != nil {
		return Position{}, false, err
	}
	defer leave()
	source, err := reader(b.Codec(), b[kafkaproto.BatchOverhead:], c.cfg.MaxRecordBytes)
	if err != nil {
		return Position{}, false, corrupt(err)
	}
	defer source.Close()
	w := walker{r: &bounded{r: source, left: c.cfg.MaxRecordBytes}}
	for i := range b.RecordCount() {
		r, err := w.record(i)
		if err == nil && (r.offset < 0 || r.offset > int64(b.LastOffsetDelta())) {
			err = fmt.Errorf("record %d: offset delta %d", i, r.offset)
		}
		if err != nil {
			return Position{}, false, corrupt(err)
		}
		at := Position{Offset: b.BaseOffset() + r.offset, Timestamp: b.BaseTimestamp() + r.timestamp}
		if b.LogAppendTime() {
			at.Timestamp = b.MaxTimestamp()
		}
		if at.Timestamp >= timestamp && at.Offset >= offset {
			return at, true, nil
		}
	}
	if err := w.end(); err != nil {
		return Position{}, false, corrupt(err)
	}
	return Position{}, false, nil
}

func corrupt(err error) error { return fmt.Errorf("%w: %w", kafkaproto.ErrCorrupt, err) }
