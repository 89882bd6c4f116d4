// Package durable turns a bucket's create-only Put, which can fail in ways that leave its outcome open, into one that
// ends in "the object is there, with exactly these bytes" or in an error.
//
// Outcomes of one attempt and what follows:
//
//	nil                 done
//	ErrAlreadyExists    Head; same length and checksum: done, it was ours; else ErrForeign, for ever
//	ErrConflict         the same put again, after a pause
//	ErrThrottled        the same put again, after a longer pause
//	ErrOutcomeUnknown   the same put again, after a pause: create-only makes the repetition harmless
//	ErrChecksum         once more (a flipped bit on the way); then an error
//	anything else       an error
//
// Uploads in parts are retried request by request in the same way (Policy.Create).
package durable

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/objstore"
)

// ErrForeign means that the key holds an object with other bytes than those put. Keys are names given once, so this is a fault
// of the caller or of the store, and no retry helps.
var ErrForeign = errors.New("key holds another object")

// Policy bounds the retries of one put, or of each request of an upload. Zero fields take the defaults.
type Policy struct {
	// AttemptTimeout bounds one attempt. Default 20 s.
	AttemptTimeout time.Duration
	// MaxAttempts bounds the attempts; 0 means only the context bounds them.
	MaxAttempts int
	// OnRetry, if set, is told of every failed attempt that will be followed by another.
	OnRetry func(err error, pause time.Duration)
}

// ApplyDefaults fills the fields left zero.
func (p *Policy) ApplyDefaults() {
	p.AttemptTimeout = cmp.Or(p.AttemptTimeout, 20*time.Second)
}

// PutResolved puts with the default policy until the object is there or ctx ends. The buffers are free when it
// returns. Errors: ErrForeign; ctx's error together with objstore.ErrOutcomeUnknown and the last attempt's; an error
// that retries do not heal (access denied).
func PutResolved(ctx context.Context, b objstore.Bucket, key string, body objstore.Body) error {
	return Policy{}.PutResolved(ctx, b, key, body)
}

// PutResolved is Put, except that the buffers are free when it returns.
func (p Policy) PutResolved(ctx context.Context, b objstore.Bucket, key string, body objstore.Body) error {
	free := make(chan struct{})
	err := p.Put(ctx, b, key, body, func() { close(free) })
	<-free
	return err
}

// Put puts until the object is there, the policy's bounds are reached, or ctx ends. It returns as soon as the outcome
// is known; released is called once when no attempt reads the buffers any more, before or after that.
func (p Policy) Put(
	ctx context.Context, b objstore.Bucket, key string, body objstore.Body, released func(),
) error {
	p.ApplyDefaults()
	r := &resolver{bucket: b, key: key, body: body, released: released}
	r.readers.Store(1)
	defer r.release()
	return p.retry(ctx, "put "+key, r.attempt)
}

// resolver is one put on its way to a certain outcome.
type resolver struct {
	bucket   objstore.Bucket
	key      string
	body     objstore.Body
	readers  atomic.Int32 // attempts that may read the buffers, plus one while run is under way
	released func()
}

func (r *resolver) release() {
	if r.readers.Add(-1) == 0 {
		r.released()
	}
}

// attempt is one put, and the look at what is there if the key is taken.
func (r *resolver) attempt(ctx context.Context) error {
	r.readers.Add(1)
	err := objstore.PutReleasing(ctx, r.bucket, r.key, r.body, r.release)
	if errors.Is(err, objstore.ErrAlreadyExists) {
		if err = Verify(ctx, r.bucket, r.key, r.body); err != nil {
			return fmt.Errorf("put %s: %w", r.key, err)
		}
	}
	return err
}

// Verify returns nil if the key's object has the body's length and checksum, ErrForeign if it is another, and
// otherwise objstore.ErrOutcomeUnknown with the cause: what is there could not be seen. Where the store keeps no
// checksum the object is read back.
func Verify(ctx context.Context, b objstore.Bucket, key string, body objstore.Body) error {
	info, err := b.Head(ctx, key)
	if err != nil {
		return fmt.Errorf("look at existing object: %w (%w)", err, objstore.ErrOutcomeUnknown)
	}
	if info.Size != body.Size {
		return fmt.Errorf("%w: %d bytes instead of %d", ErrForeign, info.Size, body.Size)
	}
	if !info.HasCRC {
		if info.CRC32C, err = readChecksum(ctx, b, key); err != nil {
			return fmt.Errorf("read existing object: %w (%w)", err, objstore.ErrOutcomeUnknown)
		}
	}
	if info.CRC32C != body.CRC32C {
		return fmt.Errorf("%w: CRC-32C %08x instead of %08x", ErrForeign, info.CRC32C, body.CRC32C)
	}
	return nil
}

func readChecksum(ctx context.Context, b objstore.Bucket, key string) (uint32, error) {
	r, err := b.Get(ctx, key, 0, -1)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	sum := crc32.New(objstore.Castagnoli)
	if _, err := io.Copy(sum, r); err != nil {
		return 0, err
	}
	return sum.Sum32(), nil
}
