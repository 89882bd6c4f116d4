package clean

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cenkalti/backoff/v5"

	"github.com/freshet-io/freshet/objstore"
)

// Bounds of what a stream does about a store that fails.
const (
	streamRetries    = 8 // in a row, without a byte between them
	streamFirstPause = 100 * time.Millisecond
	streamMaxPause   = 5 * time.Second
)

// stream reads a range of an object. A connection that breaks, as those that are read slowly do, is made again from
// where it broke.
type stream struct {
	ctx    context.Context // of the run; an io.Reader has no other place for it
	bucket objstore.Bucket
	key    string
	at     int64
	left   int64

	body     io.ReadCloser
	failures int
	pauses   backoff.ExponentialBackOff
}

// Read gives what comes next; io.EOF at the range's end alone. Errors: objstore.ErrNotFound, at once; the store's, after
// some retries; the context's.
func (s *stream) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), s.left)]
	for {
		n, err := s.attempt(p)
		if n > 0 {
			s.at, s.left, s.failures = s.at+int64(n), s.left-int64(n), 0
			return n, nil
		}
		if err == nil {
			continue
		}
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		s.close()
		if err := s.pause(err); err != nil {
			return 0, err
		}
	}
}

func (s *stream) attempt(p []byte) (int, error) {
	if s.body == nil {
		body, err := s.bucket.Get(s.ctx, s.key, s.at, s.left)
		if err != nil {
			return 0, err
		}
		s.body = body
	}
	return s.body.Read(p)
}

// pause waits after a failure, or gives the error that ends the stream.
func (s *stream) pause(err error) error {
	if s.failures == 0 {
		s.pauses = backoff.ExponentialBackOff{
			InitialInterval: streamFirstPause, MaxInterval: streamMaxPause, Multiplier: 2, RandomizationFactor: 0.5,
		}
		s.pauses.Reset()
	}
	s.failures++
	final := errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrRange) || s.failures > streamRetries
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	if final {
		return fmt.Errorf("read %s at %d: %w", s.key, s.at, err)
	}
	t := time.NewTimer(s.pauses.NextBackOff())
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// close ends the connection, if there is one.
func (s *stream) close() {
	if s.body != nil {
		_ = s.body.Close() // what was read is all that counts
		s.body = nil
	}
}
