// Package resume reads a range of an object slowly: over minutes or hours, as fast as what is made of it. A connection
// that breaks, as such connections do, or brings nothing for long, is made again from where it was.
package resume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/freshet-io/freshet/objstore"
)

// DefaultStallTimeout is how long a connection may bring nothing.
const DefaultStallTimeout = 30 * time.Second

// Bounds of what a Reader does about a store that fails.
const (
	retries    = 8 // in a row, without a byte between them
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

var errStalled = errors.New("no bytes for long")

// Reader reads one range by one GET, and by others where that ends early. It is used by one goroutine at a time.
type Reader struct {
	// StallTimeout is how long a connection may bring nothing. Default DefaultStallTimeout.
	StallTimeout time.Duration
	// OnResume, if set, is told of each GET after the first.
	OnResume func()

	ctx    context.Context // of the reading; an io.Reader has no other place for it
	bucket objstore.Bucket
	key    string
	at     int64
	left   int64
	begun  bool // a GET was made

	body     io.ReadCloser
	cancel   context.CancelFunc // of the body
	failures int
	pauses   backoff.ExponentialBackOff
}

// New gives a Reader of [offset, offset+length) of an object, until ctx ends. Nothing is read before Read is called.
func New(ctx context.Context, b objstore.Bucket, key string, offset, length int64) *Reader {
	return &Reader{StallTimeout: DefaultStallTimeout, ctx: ctx, bucket: b, key: key, at: offset, left: length}
}

// Read gives what comes next; io.EOF at the range's end alone. Errors: objstore.ErrNotFound and objstore.ErrRange at
// once; the store's, after some retries; the context's.
func (r *Reader) Read(p []byte) (int, error) {
	if r.left <= 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.left)]
	for {
		n, err := r.attempt(p)
		if n > 0 {
			r.at, r.left, r.failures = r.at+int64(n), r.left-int64(n), 0
			return n, nil // what is wrong shows at the next read
		}
		if err == nil {
			continue
		}
		r.disconnect()
		if err := r.pause(err); err != nil {
			return 0, err
		}
	}
}

// Open sends the first GET, so that the first Read need not. After an error, Read repeats the GET.
func (r *Reader) Open() error {
	if r.body == nil && r.left > 0 {
		return r.open()
	}
	return nil
}

// At is the offset in the object of what Read gives next.
func (r *Reader) At() int64 { return r.at }

// Connected tells whether a connection is there that brings what comes next.
func (r *Reader) Connected() bool { return r.body != nil }

// SkipTo goes on at a later offset, by another GET. Skipping a little by reading is cheaper.
func (r *Reader) SkipTo(offset int64) {
	r.disconnect()
	r.left -= offset - r.at
	r.at, r.begun = offset, false
}

// Close ends the connection, if there is one. It always succeeds.
func (r *Reader) Close() error {
	r.disconnect()
	r.left = 0
	return nil
}

// attempt reads once, opening the object before if need be.
func (r *Reader) attempt(p []byte) (int, error) {
	if r.body == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	stalled := time.AfterFunc(r.StallTimeout, r.cancel)
	n, err := r.body.Read(p)
	if !stalled.Stop() {
		err = errStalled
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (r *Reader) open() error {
	if r.begun && r.OnResume != nil {
		r.OnResume()
	}
	r.begun = true
	ctx, cancel := context.WithCancel(r.ctx)
	stalled := time.AfterFunc(r.StallTimeout, cancel)
	body, err := r.bucket.Get(ctx, r.key, r.at, r.left)
	if !stalled.Stop() {
		if err == nil {
			_ = body.Close()
		}
		err = errStalled
	}
	if err != nil {
		cancel()
		return err
	}
	r.body, r.cancel = body, cancel
	return nil
}

// pause waits after a failure, or gives the error that ends the reading.
func (r *Reader) pause(err error) error {
	if r.ctx.Err() != nil {
		return r.ctx.Err()
	}
	if r.failures == 0 {
		r.pauses = backoff.ExponentialBackOff{
			InitialInterval: firstPause, MaxInterval: maxPause, Multiplier: 2, RandomizationFactor: 0.5,
		}
		r.pauses.Reset()
	}
	r.failures++
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrRange) || r.failures > retries {
		return fmt.Errorf("read %s at %d: %w", r.key, r.at, err)
	}
	t := time.NewTimer(r.pauses.NextBackOff())
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-r.ctx.Done():
		return r.ctx.Err()
	}
}

func (r *Reader) disconnect() {
	if r.body != nil {
		_ = r.body.Close() // what was read is all that counts
		r.cancel()
		r.body = nil
	}
}
