package bundle

import (
	"context"
	"errors"
	"fmt"
	"time"

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
)

// WriterConfig says where a bundle goes.
type WriterConfig struct {
	Bucket objstore.Bucket
	Prefix string // of the virtual cluster's keys: empty, or ending in a slash
	Name   id.Submission
	// PartBytes is the size from which a part is sent, and about half of the memory that a Writer takes. Default 64 MiB,
	// at least objstore.MinPart.
	PartBytes int
	// Retry bounds the retries of requests. Its default gives each attempt two minutes.
	Retry durable.Policy
	// Limit, if set, is waited for before n bytes are sent.
	Limit func(ctx context.Context, n int) error
	// OnPart, if set, is told of the bytes of each part or object sent.
	OnPart func(n int)
}

// Writer writes one bundle of version 2 as a stream: it copies batches into a part, sends the part when it is full, and
// fills another meanwhile, so that it holds two parts at most. What is smaller than a part is one Put. It is used by one
// goroutine at a time, and must be ended by Finish that succeeded, or by Abort.
type Writer struct {
	config WriterConfig
	key    string
	frame  frame
	part   part   // being filled
	number int    // of the part being filled, from 1
	crc    uint32 // CRC-32C of the parts before it
	upload *durable.Upload

	sending chan sent // tells of the part under way; nil if there is none
	cancel  context.CancelFunc
	err     error // why nothing more can be written
	ended   bool
}

type sent struct {
	bytes int
	err   error
}

// NewWriter begins a bundle. Nothing is sent yet.
func NewWriter(config WriterConfig) (*Writer, error) {
	if config.PartBytes == 0 {
		config.PartBytes = DefaultPartBytes
	}
	if config.PartBytes < objstore.MinPart || config.PartBytes > objstore.MaxPart {
		return nil, fmt.Errorf("bundle parts of %d bytes, want %d to %d", config.PartBytes, objstore.MinPart, objstore.MaxPart)
	}
	if config.Retry.AttemptTimeout == 0 {
		config.Retry.AttemptTimeout = partTimeout
	}
	w := &Writer{config: config, key: Key(config.Prefix, config.Name.Bundle()), number: 1}
	w.part.append(w.frame.begin(config.Name))
	return w, nil
}

// Batch appends a copy of one whole record batch with its true base offset, and gives its position. The partition is
// that of the batch before, or follows it. The batch's checksum must be right. Errors: ErrOrder, ErrShortBatch,
// ErrTooLarge, after which the bundle is as before; those of sending a part, after which only Abort is left.
func (w *Writer) Batch(ctx context.Context, partition id.TopicPartition, batch []byte) (position uint32, err error) {
	if err := w.usable(); err != nil {
		return 0, err
	}
	position, err = w.frame.add(partition, batch)
	if err != nil {
		return 0, fmt.Errorf("write bundle %s: %w", w.config.Name, err)
	}
	w.part.append(batch)
	if w.part.size >= w.config.PartBytes {
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
		if err := w.limit(ctx, w.part.size); err != nil {
			return err
		}
		if err := w.config.Retry.PutResolved(ctx, w.config.Bucket, w.key, w.part.body()); err != nil {
			return fmt.Errorf("write bundle %s: %w", w.config.Name, err)
		}
		w.told(w.part.size)
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
		<-w.sending
		w.sending = nil
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

// send waits for the part under way and sends the one that is full beside what comes next.
func (w *Writer) send(ctx context.Context) error {
	if w.upload == nil {
		upload, err := w.config.Retry.Create(ctx, w.config.Bucket, w.key)
		if err != nil {
			return fmt.Errorf("write bundle %s: %w", w.config.Name, err)
		}
		w.upload = upload
	}
	if err := w.await(); err != nil {
		return err
	}
	full, number := w.part, w.number
	w.crc = objstore.CombineCRC32C(w.crc, full.crc, int64(full.size))
	w.part, w.number = part{}, w.number+1
	ctx, w.cancel = context.WithCancel(ctx)
	w.sending = make(chan sent, 1)
	go func(results chan<- sent) {
		err := w.limit(ctx, full.size)
		if err == nil {
			err = w.upload.Part(ctx, number, full.body())
		}
		n := full.size
		full.free()
		results <- sent{n, err}
	}(w.sending)
	return nil
}

// await waits for the part under way.
func (w *Writer) await() error {
	if w.sending == nil {
		return nil
	}
	result := <-w.sending
	w.sending = nil
	w.cancel()
	if result.err != nil {
		return fmt.Errorf("write bundle %s: %w", w.config.Name, result.err)
	}
	w.told(result.bytes)
	return nil
}

func (w *Writer) limit(ctx context.Context, n int) error {
	if w.config.Limit == nil {
		return nil
	}
	return w.config.Limit(ctx, n)
}

func (w *Writer) told(n int) {
	if w.config.OnPart != nil {
		w.config.OnPart(n)
	}
}
