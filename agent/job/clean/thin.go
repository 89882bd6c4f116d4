package clean

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/job"
)

// thin writes what stays of a batch as a batch of its own.
func (c *cleaner) thin(ctx context.Context, b kafkaproto.RecordBatch, t thinning) error {
	sealed := kafkaproto.Thinned{
		BaseTimestamp: t.first, MaxTimestamp: t.max, Records: t.kept, DeleteHorizon: t.horizon || b.DeleteHorizon(),
	}
	if b.Control() {
		sealed.MaxTimestamp, sealed.Records = b.MaxTimestamp(), b.RecordCount()
	}
	switch {
	case t.horizon:
		sealed.BaseTimestamp = horizon(c.spec)
	case b.DeleteHorizon():
		sealed.BaseTimestamp = b.BaseTimestamp()
	}
	if b.LogAppendTime() {
		sealed.MaxTimestamp = b.MaxTimestamp()
	}
	if err := c.rebuild(ctx, b, t.all, sealed.BaseTimestamp); err != nil {
		return err
	}
	thinned := kafkaproto.SealThinned(c.rebuilt.Bytes(), sealed)
	if len(thinned) > len(b) && int64(len(thinned)) > c.spec.MaxBatchBytes {
		c.counts.oversized++ // as Kafka, which logs it
	}
	err := c.out.batch(ctx, thinned)
	if c.rebuilt.Cap() > spareBatchBytes {
		c.rebuilt = bytes.Buffer{}
	}
	return err
}

// horizon is now plus delete.retention.ms, which may be as large as an int64 can be.
func horizon(s *job.CleanSpec) int64 {
	if h := s.NowMs + s.DeleteRetentionMs; h >= s.NowMs {
		return h
	}
	return 1<<63 - 1
}

// rebuild writes a batch's header and the records that stay, compressed, to c.rebuilt. Their timestamps count from base.
// Errors are those of opener.each.
func (c *cleaner) rebuild(ctx context.Context, b kafkaproto.RecordBatch, all bool, base int64) error {
	c.rebuilt.Reset()
	c.rebuilt.Write(b[:kafkaproto.BatchOverhead])
	if err := c.records.open(ctx, b); err != nil {
		return err
	}
	defer c.records.close()
	w, err := c.records.codecs.Writer(b.Codec(), &c.rebuilt)
	if err == nil {
		err = c.retained(w, all, base)
	}
	if err != nil {
		return unreadable(ctx, err)
	}
	return nil
}

// retained writes the records that stay of the batch at hand, and completes what is in w.
func (c *cleaner) retained(w io.WriteCloser, all bool, base int64) error {
	for i := range int(c.records.batch.RecordCount()) {
		if err := c.records.head(); err != nil {
			return truncated(err)
		}
		var err error
		if !all && c.stays[i/64]&(1<<(i%64)) == 0 {
			err = c.records.skip()
		} else if _, err = w.Write(c.head(base)); err == nil {
			err = c.records.copyTo(w)
		}
		if err != nil {
			return truncated(err)
		}
	}
	return w.Close()
}

// head encodes what comes before the key of the record at hand, its timestamp counted from base.
func (c *cleaner) head(base int64) []byte {
	r := c.records
	var fields [2 * binary.MaxVarintLen64]byte
	n := binary.PutVarint(fields[:], r.timestamp-base)
	n += binary.PutVarint(fields[n:], r.delta)
	c.field = binary.AppendVarint(c.field[:0], 1+int64(n)+r.left)
	c.field = append(c.field, r.attributes)
	c.field = append(c.field, fields[:n]...)
	return c.field
}
