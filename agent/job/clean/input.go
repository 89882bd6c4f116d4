package clean

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/job"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
	"github.com/freshet-io/freshet/objstore/resume"
)

// ErrUncleanable is the base of errors that lie in what is stored of a partition: reading again does not help.
var ErrUncleanable = errors.New("partition cannot be cleaned")

// batchError names the batch in which the error lies.
type batchError struct {
	bundle   id.Bundle // 0: none, it is a marker
	position int64     // of the batch in the object
	offset   int64     // that the batch has, or should have
	reason   error
	intact   bool // the batch is intact, and only its records cannot be decoded
}

func (e *batchError) Error() string {
	name := e.bundle.Submission()
	return fmt.Sprintf("batch at %d of bundle %d/%d (offset %d): %v", e.position, name.Session, name.N, e.offset, e.reason)
}

// Unwrap returns ErrUncleanable and the reason.
func (e *batchError) Unwrap() []error { return []error{ErrUncleanable, e.reason} }

// UnreadableInputs implements runner.UnreadableInputs.
func (e *batchError) UnreadableInputs() job.Unreadable {
	if e.bundle == 0 {
		return job.Unreadable{}
	}
	return job.Unreadable{Bundles: []id.Bundle{e.bundle}, Intact: e.intact}
}

// spareBatchBytes is what a buffer for batches may keep after a larger one.
const spareBatchBytes = 1 << 20

// input reads the batches of extents from the store, in order.
type input struct {
	bucket   objstore.Bucket
	prefix   string
	progress func(bytes int64)
	buf      *bufio.Reader
	batch    []byte // the one at hand
	bytes    int64  // read
}

func newInput(e *Env, progress func(int64)) *input {
	return &input{bucket: e.Bucket, prefix: e.Prefix, progress: progress, buf: bufio.NewReaderSize(nil, bufferBytes)}
}

// each calls do with every batch, its checksum compared, its base offset and leader epoch true. The batch is
// valid until do returns. Markers come as the control batches they stand for. Errors: do's and the context's; those
// of the store; *batchError. Errors of do that lie in the batch's records are to be a recordsError.
func (in *input) each(ctx context.Context, exts []extent.Extent, do func(kafkaproto.RecordBatch) error) error {
	for len(exts) > 0 {
		if exts[0].Kind == extent.Marker {
			if err := located(do(in.marker(&exts[0])), &exts[0], 0, exts[0].Base); err != nil {
				return err
			}
			exts = exts[1:]
			continue
		}
		n, size := adjacent(exts)
		if err := in.eachIn(ctx, exts[:n], size, do); err != nil {
			return err
		}
		exts = exts[n:]
	}
	return nil
}

// adjacent tells how many of the extents, from the first on, lie one behind the other in one object, and their bytes.
func adjacent(exts []extent.Extent) (n int, bytes int64) {
	for n < len(exts) && exts[n].Kind != extent.Marker && exts[n].Bundle == exts[0].Bundle &&
		int64(exts[n].Position) == int64(exts[0].Position)+bytes {
		bytes += int64(exts[n].Length)
		n++
	}
	return n, bytes
}

// eachIn reads extents that lie one behind the other, by one request.
func (in *input) eachIn(ctx context.Context, exts []extent.Extent, size int64, do func(kafkaproto.RecordBatch) error) error {
	source := resume.New(ctx, in.bucket, bundle.Key(in.prefix, exts[0].Bundle), int64(exts[0].Position), size)
	defer source.Close()
	in.buf.Reset(source)
	for i := range exts {
		if err := in.eachOf(ctx, &exts[i], do); err != nil {
			return err
		}
	}
	return nil
}

func (in *input) eachOf(ctx context.Context, x *extent.Extent, do func(kafkaproto.RecordBatch) error) error {
	next := x.Base
	for at := int64(0); at < int64(x.Length); {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := in.next(x, next, int64(x.Length)-at)
		if err == nil {
			err = do(b)
		}
		if err != nil {
			return located(err, x, at, next)
		}
		next, at = b.LastOffset()+1, at+int64(len(b))
	}
	if x.Kind == extent.Relative && next != x.Last+1 {
		reason := fmt.Errorf("offsets end at %d, those of the extent at %d", next-1, x.Last)
		return &batchError{bundle: x.Bundle, position: int64(x.Position), offset: next, reason: reason}
	}
	return nil
}

// located adds the batch to a recordsError or objstore.ErrNotFound: bundle, position and offset. at counts from the extent's
// first byte. Other errors are returned unchanged.
func located(err error, x *extent.Extent, at, offset int64) error {
	if reason := (*recordsError)(nil); errors.As(err, &reason) {
		if x.Kind == extent.Marker { // in no bundle
			return &batchError{offset: offset, reason: reason.err}
		}
		return &batchError{bundle: x.Bundle, position: int64(x.Position) + at, offset: offset, reason: reason.err, intact: !reason.damaged}
	}
	if errors.Is(err, objstore.ErrNotFound) {
		return &batchError{bundle: x.Bundle, position: int64(x.Position) + at, offset: offset, reason: err}
	}
	return err
}

// recordsError is returned for a batch whose records cannot be decoded, or for a damaged batch.
type recordsError struct {
	err     error
	damaged bool // fetches and compaction fail too
}

func (e *recordsError) Error() string { return e.err.Error() }

// next reads one batch, of which no offset is below next, from the left bytes of an extent.
func (in *input) next(x *extent.Extent, next, left int64) (kafkaproto.RecordBatch, error) {
	bad := func(format string, args ...any) (kafkaproto.RecordBatch, error) {
		return nil, &recordsError{err: fmt.Errorf(format, args...), damaged: true}
	}
	if left < kafkaproto.BatchOverhead {
		return bad("%d bytes are no batch", left)
	}
	p, err := in.buf.Peek(kafkaproto.BatchOverhead)
	if err != nil {
		return nil, err
	}
	head := kafkaproto.RecordBatch(p)
	size := head.Length()
	if head.Magic() != 2 || size < kafkaproto.BatchOverhead || int64(size) > left || head.LastOffsetDelta() < 0 {
		return bad("magic %d, %d of %d bytes, last offset delta %d", head.Magic(), size, left, head.LastOffsetDelta())
	}
	if cap(in.batch) < size || cap(in.batch) > spareBatchBytes && size <= spareBatchBytes {
		in.batch = make([]byte, size)
	}
	b := kafkaproto.RecordBatch(in.batch[:size])
	if _, err := io.ReadFull(in.buf, b); err != nil {
		return nil, err
	}
	in.bytes += int64(size)
	in.progress(in.bytes)
	if sum := b.ComputeCRC(); sum != b.CRC() {
		return bad("checksum stored %08x, computed %08x", b.CRC(), sum)
	}
	if x.Kind == extent.Relative {
		b.SetBaseOffset(next)
	}
	if b.BaseOffset() < next || b.LastOffset() > x.Last {
		return bad("offsets [%d, %d], of the extent [%d, %d] at %d", b.BaseOffset(), b.LastOffset(), x.Base, x.Last, next)
	}
	b.SetPartitionLeaderEpoch(kafkaproto.LogEpoch)
	return b, nil
}

// marker makes the control batch that a marker stands for, the same bytes that readers of the marker get.
func (in *input) marker(x *extent.Extent) kafkaproto.RecordBatch {
	m := x.EndMarker()
	end := kafkaproto.Abort
	if m.Commit {
		end = kafkaproto.Commit
	}
	in.batch = kafkaproto.AppendControlBatch(in.batch[:0], x.Base, x.MaxTimestamp, m.ProducerID, m.Epoch, end, m.CoordinatorEpoch)
	return in.batch
}
