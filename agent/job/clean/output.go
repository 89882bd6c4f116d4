package clean

import (
	"context"
	"fmt"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// output writes the batches that stay into bundles and keeps account of the extents they make.
type output struct {
	env     *Env
	job     id.Session
	writer  *bundle.Writer // nil between bundles
	bundles []job.Bundle
	begun   uint32 // number of the last bundle begun

	partition id.TopicPartition
	exts      []extent.Extent
	open      bool  // the last of exts may grow
	next      int64 // after the last offset that exts cover
	bytes     int64 // written in all
}

// begin begins with a partition, of which the offsets from there on are to be covered.
func (o *output) begin(tp id.TopicPartition, from int64) {
	o.partition, o.exts, o.open, o.next = tp, nil, false, from
}

// batch writes one batch. It is not read any more afterwards.
func (o *output) batch(ctx context.Context, b kafkaproto.RecordBatch) error {
	if o.writer == nil {
		o.begun++
		config := o.env.Output
		config.Bucket, config.Prefix, config.Name = o.env.Bucket, o.env.Prefix, id.Submission{Session: o.job, N: o.begun}
		w, err := bundle.NewWriter(config)
		if err != nil {
			return fmt.Errorf("begin bundle %d: %w", o.begun, err)
		}
		o.writer = w
	}
	position, err := o.writer.Batch(ctx, o.partition, b)
	if err != nil {
		return fmt.Errorf("write bundle %d: %w", o.begun, err)
	}
	o.bytes += int64(len(b))
	if !o.open {
		o.exts = append(o.exts, extent.Extent{
			Base: o.next, MaxTimestamp: -1, Bundle: id.Submission{Session: o.job, N: o.begun}.Bundle(),
			Position: position, Kind: extent.Absolute,
		})
		o.open = true
	}
	x := &o.exts[len(o.exts)-1]
	x.Last, x.Length, x.Batches = b.LastOffset(), x.Length+uint32(len(b)), x.Batches+1
	x.MaxTimestamp = max(x.MaxTimestamp, b.MaxTimestamp())
	o.next = x.Last + 1
	o.open = int64(x.Length) < o.env.ExtentBytes
	if o.writer.Size() >= o.env.BundleBytes {
		return o.roll(ctx)
	}
	return nil
}

// finish ends the partition and gives its extents, which cover all up to the offset to. Where nothing is left an empty
// batch stands for it.
func (o *output) finish(ctx context.Context, to int64) ([]extent.Extent, error) {
	if len(o.exts) == 0 {
		for b, err := range kafkaproto.Batches(kafkaproto.AppendEmptyBatches(nil, o.next, to)) {
			if err != nil {
				return nil, err
			}
			if err := o.batch(ctx, b); err != nil {
				return nil, err
			}
		}
	}
	exts := o.exts
	exts[len(exts)-1].Last = to
	o.exts, o.open = nil, false
	return exts, nil
}

// roll completes the bundle that was begun, if there is one.
func (o *output) roll(ctx context.Context) error {
	if o.writer == nil {
		return nil
	}
	bytes, err := o.writer.Finish(ctx)
	if err != nil {
		return fmt.Errorf("complete bundle %d: %w", o.begun, err)
	}
	o.bundles = append(o.bundles, job.Bundle{N: o.begun, Bytes: bytes})
	o.writer, o.open = nil, false
	return nil
}

// abort gives up the bundle that was begun. The context may be over.
func (o *output) abort(ctx context.Context) {
	if o.writer != nil {
		o.writer.Abort(ctx)
		o.writer = nil
	}
}
