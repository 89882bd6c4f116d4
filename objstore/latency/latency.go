// Package latency makes a fast bucket as slow as a real object store: each request takes a log-normally distributed
// time that depends on the operation and the size.
//
// The presets, in milliseconds:
//
//	preset        operation         size      p50   p99   then
//	s3-standard   put, delete       64 KiB     60   200
//	              put, delete        8 MiB    130   350
//	              get first byte    any        30   150   90 MiB/s
//	              head, lists, now             30   150
//	s3-express    put, delete       any         8    20
//	              get first byte    any         5    15   250 MiB/s
//	              head, lists, now              5    15
//
// A part of an upload takes the time of a put, and what it has beyond 8 MiB comes at the rate of a get: a connection
// carries no more. Its beginning and its end take the time of a put of the least size.
//
// Between sizes, both percentiles are interpolated along the logarithms of size and time; below the smallest and
// above the largest size they stay as there. The wrapped bucket's own time counts as part of the model's: a request
// takes the larger of the two. The request is carried out first and its answer held back, so a put that is cancelled
// while it waits has an unknown outcome, as with a real store.
package latency

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/freshet-io/freshet/internal/wait"
	"github.com/freshet-io/freshet/objstore"
)

// Bucket delays the answers of another bucket.
type Bucket struct {
	inner objstore.Bucket
	model Model

	mu  sync.Mutex
	rng *rand.Rand
}

var _ objstore.Bucket = (*Bucket)(nil)

// New delays inner by the model. The same seed gives the same durations to the same sequence of requests.
func New(inner objstore.Bucket, model Model, seed uint64) *Bucket {
	return &Bucket{inner: inner, model: model, rng: rand.New(rand.NewPCG(seed, seed))}
}

// begin draws a request's duration and returns the function that waits for its end.
func (b *Bucket) begin(ctx context.Context, op objstore.Op, size int64) (wait func() error) {
	b.mu.Lock()
	z := b.rng.NormFloat64()
	b.mu.Unlock()
	end := time.Now().Add(b.model.sample(op, size, z))
	return func() error { return sleepUntil(ctx, end) }
}

// sleepUntil returns nil if end has passed, even if ctx has ended: the request was carried out in time.
func sleepUntil(ctx context.Context, end time.Time) error {
	if d := time.Until(end); d > 0 {
		return wait.For(ctx, d)
	}
	return nil
}

// Put puts and holds the answer back.
func (b *Bucket) Put(ctx context.Context, key string, body objstore.Body) error {
	return b.write(ctx, objstore.OpPut, key, body.Size, func() error { return b.inner.Put(ctx, key, body) })
}

// Get holds the first byte back and gives the others at the model's rate.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	wait := b.begin(ctx, objstore.OpGet, length)
	r, err := b.inner.Get(ctx, key, offset, length)
	if waitErr := wait(); waitErr != nil {
		if err == nil {
			r.Close()
		}
		return nil, fmt.Errorf("get %s: %w", key, waitErr)
	}
	if err != nil || b.model.BytesPerSecond == 0 {
		return r, err
	}
	return &pacedReader{ReadCloser: r, ctx: ctx, rate: b.model.BytesPerSecond, start: time.Now()}, nil
}

// pacedReader gives bytes no faster than its rate, counted from start.
type pacedReader struct {
	io.ReadCloser
	ctx   context.Context
	rate  int64 // bytes per second
	start time.Time
	given int64
}

// Read waits for when the bytes it has would have arrived, but not for less than a millisecond's worth at a time.
func (r *pacedReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p[:min(len(p), 256<<10)])
	r.given += int64(n)
	due := r.start.Add(time.Duration(float64(r.given) / float64(r.rate) * float64(time.Second)))
	if time.Until(due) < time.Millisecond && err == nil {
		return n, nil
	}
	if waitErr := sleepUntil(r.ctx, due); waitErr != nil {
		return 0, waitErr
	}
	return n, err
}

// Head heads and holds the answer back.
func (b *Bucket) Head(ctx context.Context, key string) (objstore.Info, error) {
	wait := b.begin(ctx, objstore.OpHead, 0)
	info, err := b.inner.Head(ctx, key)
	if waitErr := wait(); waitErr != nil {
		return objstore.Info{}, fmt.Errorf("head %s: %w", key, waitErr)
	}
	return info, err
}

// List lists and holds the answer back.
func (b *Bucket) List(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.Info, error) {
	wait := b.begin(ctx, objstore.OpList, 0)
	page, err := b.inner.List(ctx, prefix, startAfter, limit)
	if waitErr := wait(); waitErr != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, waitErr)
	}
	return page, err
}

// Delete deletes and holds the answer back.
func (b *Bucket) Delete(ctx context.Context, keys []string) error {
	wait := b.begin(ctx, objstore.OpDelete, 0)
	err := b.inner.Delete(ctx, keys)
	if waitErr := wait(); waitErr != nil {
		return fmt.Errorf("delete: %w: %w", objstore.ErrOutcomeUnknown, waitErr)
	}
	return err
}

// Now holds the answer back; the time is that of the answer.
func (b *Bucket) Now(ctx context.Context) (time.Time, error) {
	if err := b.begin(ctx, objstore.OpNow, 0)(); err != nil {
		return time.Time{}, fmt.Errorf("ask for time: %w", err)
	}
	return b.inner.Now(ctx)
}

// Close closes the delayed bucket.
func (b *Bucket) Close() error { return b.inner.Close() }
