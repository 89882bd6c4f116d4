package merge

import (
	"context"
	"fmt"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// output writes batches into bundles, and keeps account of the extents that the batches of a run make.
type output struct {
	env     *Env
	job     id.Session
	writer  *bundle.Writer // nil between bundles
	begun   uint32         // number of the last bundle begun
	bundles []job.Bundle   // complete

	partition id.TopicPartition
	exts      []extent.Extent // of the run
	open      bool            // the last of exts may grow
	next      int64           // after the last offset that exts cover
	bytes     int64           // of the run's batches
	whole     int64           // about what they come to: the bytes of its extents
}

// begin begins with a run: the offsets from there on are to be covered, by batches of so many bytes.
func (o *output) begin(partition id.TopicPartition, from, bytes int64) {
	o.partition, o.exts, o.open, o.next, o.bytes, o.whole = partition, nil, false, from, 0, bytes
}

// batch copies a batch. Its offsets are above those of the batch before.
func (o *output) batch(ctx context.Context, b kafkaproto.RecordBatch) error {
	if o.writer == nil {
		if err := o.create(); err != nil {
			return err
		}
	}
	position, err := o.writer.Batch(ctx, o.partition, b)
	if err != nil {
		return err
	}
	o.bytes += int64(len(b))
	o.env.Metrics.written.Add(float64(len(b)))
	if !o.open {
		o.exts = append(o.exts, extent.Extent{
			Base: o.next, MaxTimestamp: -1, Bundle: id.Submission{Session: o.job, N: o.begun}.Bundle(),
			Position: position, Kind: extent.Absolute,
		})
	}
	x := &o.exts[len(o.exts)-1]
	x.Last, x.Length, x.Batches = b.LastOffset(), x.Length+uint32(len(b)), x.Batches+1
	x.MaxTimestamp = max(x.MaxTimestamp, b.MaxTimestamp())
	o.next = x.Last + 1
	// What is left of the run may be too little for an extent of its own: it costs metadata for good.
	o.open = int64(x.Length) < o.env.ExtentBytes || o.whole-o.bytes < o.env.ExtentBytes/2
	if o.writer.Size() >= o.env.BundleBytes {
		return o.roll(ctx)
	}
	return nil
}

func (o *output) create() error {
	o.begun++
	w, err := bundle.NewWriter(bundle.WriterConfig{
		Bucket: o.env.Bucket, Prefix: o.env.Prefix, Name: id.Submission{Session: o.job, N: o.begun},
		PartBytes: o.env.PartBytes, InFlight: o.env.InFlight,
	})
	if err != nil {
		return fmt.Errorf("begin bundle %d/%d: %w", o.job, o.begun, err)
	}
	o.writer = w
	return nil
}

// finish ends the run and gives its extents, which cover all up to the offset to. A run without any batch becomes an
// empty one.
func (o *output) finish(ctx context.Context, to int64) ([]extent.Extent, error) {
	if len(o.exts) == 0 {
		for b, err := range kafkaproto.Batches(kafkaproto.AppendEmptyBatches(nil, o.next, to)) {
			if err != nil {
				return nil, fmt.Errorf("make an empty batch: %w", err)
			}
			if err := o.batch(ctx, b); err != nil {
				return nil, err
			}
		}
	}
	o.exts[len(o.exts)-1].Last = to
	return o.exts, nil
}

// roll completes the bundle that was begun, if there is one.
func (o *output) roll(ctx context.Context) error {
	if o.writer == nil {
		return nil
	}
	bytes, err := o.writer.Finish(ctx)
	if err != nil {
		return err
	}
	o.env.Metrics.bundles.Inc()
	o.bundles = append(o.bundles, job.Bundle{N: o.begun, Bytes: bytes})
	o.writer, o.open = nil, false
	return nil
}

// abort gives up the bundle that was begun, if there is one.
func (o *output) abort(ctx context.Context) {
	if o.writer != nil {
		o.writer.Abort(ctx)
		o.writer = nil
	}
}
