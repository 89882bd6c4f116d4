package merge

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

// stream reads [at, end) of an object by one GET. A connection that breaks, as those that are read slowly do, or brings
// nothing for long, is made again from where it was.
type stream struct {
	ctx   context.Context // of the run; an io.Reader has no other place for it
	env   *Env
	key   string
	at    int64
	end   int64
	begun bool // a GET was made

	body     io.ReadCloser
	cancel   context.CancelFunc // of the body
	failures int
	pauses   backoff.ExponentialBackOff
}

// Read gives what comes next; io.EOF at the range's end alone. Errors: objstore.ErrNotFound and objstore.ErrRange at
// once; the store's, after some retries; the context's.
func (s *stream) Read(p []byte) (int, error) {
	if s.at >= s.end {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), s.end-s.at)]
	for {
		n, err := s.attempt(p)
		if n > 0 {
			s.at += int64(n)
			s.failures = 0
			return n, nil // what is wrong shows at the next read
		}
		if err == nil {
			continue
		}
		s.close()
		if err := s.pause(err); err != nil {
			return 0, err
		}
	}
}

// attempt reads once, opening the object before if need be, within the stall timeout.
func (s *stream) attempt(p []byte) (int, error) {
	if s.body == nil {
		if err := s.open(); err != nil {
			return 0, err
		}
	}
	stalled := time.AfterFunc(s.env.StallTimeout, s.cancel)
	n, err := s.body.Read(p)
	if !stalled.Stop() {
		err = errStalled
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

var errStalled = errors.New("no bytes for long")

// open makes the GET.
func (s *stream) open() error {
	if s.begun {
		s.env.Metrics.resumed.Inc()
	}
	s.begun = true
	ctx, cancel := context.WithCancel(s.ctx)
	stalled := time.AfterFunc(s.env.StallTimeout, cancel)
	body, err := s.env.Bucket.Get(ctx, s.key, s.at, s.end-s.at)
	if !stalled.Stop() && err == nil {
		body.Close()
		err = errStalled
	}
	if err != nil {
		cancel()
		return err
	}
	s.body, s.cancel = body, cancel
	return nil
}

// pause waits after a failure, or gives the error that ends the stream.
func (s *stream) pause(err error) error {
	if s.ctx.Err() != nil {
		return s.ctx.Err()
	}
	if s.failures == 0 {
		s.pauses = backoff.ExponentialBackOff{
			InitialInterval: streamFirstPause, MaxInterval: streamMaxPause, Multiplier: 2, RandomizationFactor: 0.5,
		}
		s.pauses.Reset()
	}
	s.failures++
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrRange) || s.failures > streamRetries {
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

// close ends the connection, if there is one. Reading goes on by another.
func (s *stream) close() {
	if s.body != nil {
		_ = s.body.Close() // what was read is all that counts
		s.cancel()
		s.body = nil
	}
}
