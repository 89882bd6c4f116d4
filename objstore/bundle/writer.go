package bundle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/durable"
)

// ErrOrder: a batch's partition comes before that of the batch before, or its offset does.
var ErrOrder = errors.New("batches out of order")

// Defaults of a Writer.
const (
	DefaultPartBytes = 64 << 20
	abortTimeout     = time.Second     // agents that end do not wait for long
	partTimeout      = 2 * time.Minute // of one attempt at a part: half a MiB a second
	maxInFlight      = 64
)

// WriterConfig says where a bundle goes.
type WriterConfig struct {
	Bucket objstore.Bucket
	Prefix string // of the virtual cluster's keys: empty, or ending in a slash
	Name   id.Submission
	// PartBytes is the size of the parts but the last. Default 64 MiB, at least objstore.MinPart.
	PartBytes int
	// InFlight is how many parts are sent side by side, while another is filled. Default 1.
	InFlight int
	// Retry bounds the retries of requests. Its default gives each attempt two minutes.
	Retry durable.Policy
}

// Writer writes a background job's bundle as a stream: it copies batches into a part, sends the part when it is full, and
// fills another meanwhile, so that it holds one part more than are under way. What is smaller than a part is one
// Put. It is used by one goroutine at a time, and must be ended by Finish that succeeded, or by Abort.
type Writer struct {
	config WriterConfig
	key    string
	frame  frame
	part   part   // being filled
	number int    // of the part being filled, from 1
	offset int64  // of the part being filled
	crc    uint32 // CRC-32C of the parts before it
	upload *durable.Upload

	sending *errgroup.Group // sends parts; nil before the first
	ctx     context.Context // of sending: it ends with the first part that fails
	cancel  context.CancelFunc
	err     error // why nothing more can be written
	ended   bool
}

// NewWriter begins a bundle. Nothing is sent yet.
func NewWriter(config WriterConfig) (*Writer, error) {
	config.PartBytes = cmp.Or(config.PartBytes, DefaultPartBytes)
	if config.PartBytes < objstore.MinPart || config.PartBytes > objstore.MaxPart {
		return nil, fmt.Errorf("bundle parts of %d bytes, want %d to %d", config.PartBytes, objstore.MinPart, objstore.MaxPart)
	}
	config.InFlight = cmp.Or(config.InFlight, 1)
	if config.InFlight < 1 || config.InFlight > maxInFlight {
		return nil, fmt.Errorf("%d parts side by side, want 1 to %d", config.InFlight, maxInFlight)
	}
	config.Retry.AttemptTimeout = cmp.Or(config.Retry.AttemptTimeout, partTimeout)
	w := &Writer{config: config, key: Key(config.Prefix, config.Name.Bundle()), number: 1}
	w.part.append(w.frame.begin(config.Name))
	return w, nil
}

// Batch appends a copy of one whole record batch with its true base offset, and gives its position. The partition is
// that of the batch before, or follows it. The batch's checksum must be right. Errors: ErrOrder, ErrShortBatch,
// ErrTooLarge, after which the bundle is as before; those of sending parts, after which only Abort is left. Parts go out
// under the context of the call that sends the first of them.
func (w *Writer) Batch(ctx context.Context, partition id.TopicPartition, batch []byte) (position uint32, err error) {
	if err := w.usable(); err != nil {
		return 0, err
	}
	position, err = w.frame.add(partition, batch)
	if err != nil {
		return 0, fmt.Errorf("write bundle %s: %w", w.config.Name, err)
	}
	for len(batch) > 0 {
		n := min(len(batch), w.config.PartBytes-w.part.size)
		w.part.append(batch[:n])
		if batch = batch[n:]; w.part.size < w.config.PartBytes {
			break
		}
		if w.err = w.send(ctx); w.err != nil {
			return 0, w.err
		}
	}
	return position, nil
}

// Size is the size of the bundle if it were finished now.
func (w *Writer) Size() int64 { return w.frame.size() }

// Finish sends what is left and makes the object; it gives its size. After an error only Abort is left, and the object
// may be there if the error is objstore.ErrOutcomeUnknown.
func (w *Writer) Finish(ctx context.Context) (bytes uint32, err error) {
	if err := w.usable(); err != nil {
		return 0, err
	}
	size := w.Size()
	w.part.append(w.frame.end(objstore.CombineCRC32C(w.crc, w.part.crc, int64(w.part.size))))
	if w.err = w.finish(ctx); w.err != nil {
		return 0, w.err
	}
	w.ended = true
	w.part.free()
	return uint32(size), nil
}

func (w *Writer) finish(ctx context.Context) error {
	if w.number == 1 {
		if err := w.config.Retry.PutResolved(ctx, w.config.Bucket, w.key, w.part.body()); err != nil {
			return fmt.Errorf("write bundle %s: %w", w.config.Name, err)
		}
		return nil
	}
	if err := w.send(ctx); err != nil {
		return err
	}
	if err := w.await(); err != nil {
		return err
	}
	if err := w.upload.Complete(ctx); err != nil {
		return fmt.Errorf("write bundle %s: %w", w.config.Name, err)
	}
	return nil
}

// Abort gives the bundle up, and returns when nothing of it is under way any more. It takes up to a second to tell the
// store, even if ctx is over; what it cannot abort, the sweep of orphans does. After Finish or Abort it does nothing.
func (w *Writer) Abort(ctx context.Context) {
	if w.ended {
		return
	}
	w.ended = true
	if w.sending != nil {
		w.cancel()
		_ = w.sending.Wait() // what it failed by was told, or does not matter any more
	}
	w.part.free()
	if w.upload == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	_ = w.upload.Abort(ctx)
}

var errEnded = errors.New("the bundle has ended")

func (w *Writer) usable() error {
	if w.ended {
		return errEnded
	}
	return w.err
}

// send sends the part that is full beside what comes next, once fewer than InFlight are under way.
func (w *Writer) send(ctx context.Context) error {
	if w.upload == nil {
		upload, err := w.config.Retry.Create(ctx, w.config.Bucket, w.key)
		if err != nil {
			return fmt.Errorf("write bundle %s: %w", w.config.Name, err)
		}
		w.upload = upload
		ctx, w.cancel = context.WithCancel(ctx)
		w.sending, w.ctx = errgroup.WithContext(ctx)
		w.sending.SetLimit(w.config.InFlight)
	}
	full, number, offset := w.part, w.number, w.offset
	w.part, w.number, w.offset = part{}, number+1, offset+int64(full.size)
	w.crc = objstore.CombineCRC32C(w.crc, full.crc, int64(full.size))
	w.sending.Go(func() error {
		defer full.free()
		return w.upload.Part(w.ctx, number, offset, full.body())
	})
	if w.ctx.Err() != nil {
		return w.await() // one has failed
	}
	return nil
}

// await waits for the parts under way.
func (w *Writer) await() error {
	if err := w.sending.Wait(); err != nil {
		return fmt.Errorf("write bundle %s: %w", w.config.Name, err)
	}
	return nil
}
