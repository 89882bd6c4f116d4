package clean

import (
	"bytes"
	"context"
	"errors"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/job"
)

// cleaner cleans one partition.
type cleaner struct {
	partition *job.Partition
	spec      *job.CleanSpec
	in        *input
	records   *opener
	out       *output

	keys    *offsetMap
	upTo    int64 // offsets below are in keys or need not be
	dropped []int64
	counts  counts

	stays   []uint64 // of the records of the batch at hand, a bit each
	rebuilt bytes.Buffer
	field   []byte
}

// counts are what happened to records, batches and markers.
type counts struct {
	read, kept, aborted, superseded, tombstones, keyless int64 // records; those of aborted batches not opened
	markers                                              int64 // that went
	oversized                                            int64 // batches larger than max.message.bytes, and than before
}

// note is the first pass: it notes the last offset of each key in the dirty part (Cleaner.buildOffsetMap). It goes as
// far as there is memory and sets upTo to the first offset that it left out.
func (c *cleaner) note(ctx context.Context, maxBytes int64) error {
	exts := c.partition.Extents
	for len(exts) > 0 && exts[0].Last < c.spec.FirstDirty {
		exts = exts[1:]
	}
	keys := int64(0)
	for i := range exts {
		keys += exts[i].Last - max(exts[i].Base, c.spec.FirstDirty) + 1
	}
	c.keys = newOffsetMap(keys, maxBytes)
	c.upTo = c.partition.Extents[len(c.partition.Extents)-1].Last + 1
	state := newTransactions(c.partition.Aborted)
	full := errors.New("no room for more keys")
	err := c.in.each(ctx, exts, func(b kafkaproto.RecordBatch) error {
		if b.Control() || state.data(b) {
			return nil
		}
		err := c.records.each(ctx, b, func(_ int, r *record) bool {
			if !r.hasKey || r.offset < c.spec.FirstDirty || c.keys.put(r.key, r.offset) {
				return true
			}
			c.upTo = r.offset
			return false
		})
		if err != nil {
			return err
		}
		if c.upTo <= b.LastOffset() {
			return full
		}
		return nil
	})
	if errors.Is(err, full) {
		return nil
	}
	return err
}

// rewrite is the second pass: it copies what stays (Cleaner.cleanInto). It ends with the extent in which upTo lies, or
// the one that ends before it, and gives that extent's last offset.
func (c *cleaner) rewrite(ctx context.Context) (to int64, err error) {
	exts := c.partition.Extents
	for exts[len(exts)-1].Base >= c.upTo && len(exts) > 1 {
		exts = exts[:len(exts)-1]
	}
	// Of the first extent a part may be below the log start, and aborted transactions there are not listed.
	unlisted := exts[0].Last
	state := newTransactions(c.partition.Aborted)
	err = c.in.each(ctx, exts, func(b kafkaproto.RecordBatch) error {
		if b.Control() {
			empty, listed, err := state.control(b)
			if err != nil && b.BaseOffset() > unlisted {
				return &recordsError{err: err}
			}
			return c.marker(ctx, b, empty, listed)
		}
		if state.data(b) {
			c.counts.read += int64(b.RecordCount())
			c.counts.aborted += int64(b.RecordCount())
			return nil
		}
		return c.data(ctx, b)
	})
	return exts[len(exts)-1].Last, err
}

// marker copies a control batch, unless nothing of its transaction is left and its horizon is over.
func (c *cleaner) marker(ctx context.Context, b kafkaproto.RecordBatch, empty, listed bool) error {
	switch {
	case !empty || b.LastOffset() >= c.upTo:
		return c.out.batch(ctx, b)
	case b.RecordCount() == 0:
		return nil
	case !b.DeleteHorizon():
		return c.thin(ctx, b, thinning{all: true, horizon: true})
	case c.spec.NowMs < b.BaseTimestamp():
		return c.out.batch(ctx, b)
	}
	c.counts.markers++
	if listed {
		c.dropped = append(c.dropped, b.BaseOffset())
	}
	return nil
}

// data copies a batch of records: as it is if all of them stay, else those that do.
func (c *cleaner) data(ctx context.Context, b kafkaproto.RecordBatch) error {
	if b.RecordCount() == 0 {
		return nil
	}
	c.counts.read += int64(b.RecordCount())
	if b.BaseOffset() >= c.upTo {
		c.counts.kept += int64(b.RecordCount())
		return c.out.batch(ctx, b)
	}
	t, err := c.judge(ctx, b)
	if err != nil {
		return err
	}
	c.counts.kept += int64(t.kept)
	switch {
	case t.kept == 0:
		return nil
	case t.all && !t.horizon:
		return c.out.batch(ctx, b)
	}
	return c.thin(ctx, b, t)
}

// thinning says what of a batch stays.
type thinning struct {
	all     bool // every record
	kept    int32
	horizon bool // the batch gets a delete horizon
	first   int64
	max     int64 // timestamps of the records that stay, ms
}

// judge decides which records of a batch stay, into c.stays (Cleaner.shouldRetainRecord, MemoryRecords.filterBatch).
func (c *cleaner) judge(ctx context.Context, b kafkaproto.RecordBatch) (thinning, error) {
	c.stays = c.stays[:0]
	t := thinning{max: -1}
	tombstones := false
	// A batch that is not wholly noted gets its horizon when it is.
	expired := b.DeleteHorizon() && c.spec.NowMs >= b.BaseTimestamp()
	unset := !b.DeleteHorizon() && b.LastOffset() < c.upTo
	err := c.records.each(ctx, b, func(i int, r *record) bool {
		if i%64 == 0 {
			c.stays = append(c.stays, 0)
		}
		if !c.retain(r, expired) {
			return true
		}
		c.stays[i/64] |= 1 << (i % 64)
		tombstones = tombstones || !r.hasValue
		if t.kept == 0 {
			t.first = r.timestamp
		}
		t.kept++
		t.max = max(t.max, r.timestamp)
		return true
	})
	t.all = t.kept == b.RecordCount()
	t.horizon = tombstones && unset
	return t, err
}

// retain decides about one record; expired says that the delete horizon of its batch is over.
func (c *cleaner) retain(r *record, expired bool) bool {
	switch {
	case r.offset >= c.upTo:
	case !r.hasKey:
		c.counts.keyless++
		return false
	case r.offset < c.keys.last(r.key):
		c.counts.superseded++
		return false
	case !r.hasValue && expired:
		c.counts.tombstones++
		return false
	}
	return true
}
