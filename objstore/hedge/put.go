package hedge

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/durable"
)

// PutReleasing puts, and returns on the first success, or when all attempts have failed. The error is then the least
// certain of theirs: ErrOutcomeUnknown before ErrAlreadyExists before any other.
func (b *Bucket) PutReleasing(ctx context.Context, key string, body objstore.Body, released func()) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of the attempt that did not win
	r := &putRace{bucket: b, key: key, body: body, released: released, results: make(chan putResult, 3)}
	r.readers.Store(1)
	defer r.release()
	return r.run(ctx)
}

// attempts of a put, as results name them.
const (
	first = iota
	second
	verification // a look at the object after an attempt found it to exist
)

type putResult struct {
	attempt int
	err     error
}

// putRace is one put's attempts. It is used by one goroutine but for the channel and the count of readers.
type putRace struct {
	bucket   *Bucket
	key      string
	body     objstore.Body
	released func()
	readers  atomic.Int32 // attempts that may read the buffers, plus one until run returns

	results  chan putResult
	pending  int
	hedged   bool
	verified bool // a verification was started
	worst    error
}

func (r *putRace) release() {
	if r.readers.Add(-1) == 0 {
		r.released()
	}
}

func (r *putRace) run(ctx context.Context) error {
	b := r.bucket
	class := classOf(r.body.Size)
	start := time.Now()
	hedge := b.puts.timer(class)
	defer hedge.Stop()
	r.start(ctx, first)
	for {
		select {
		case <-hedge.C:
			if b.mayHedge(b.puts, objstore.OpPut) {
				r.hedged = true
				r.start(ctx, second)
			}
		case result := <-r.results:
			r.pending--
			b.puts.noteError(result.err)
			if result.err == nil {
				// If the first attempt is still under way, it takes at least this long.
				b.puts.observe(class, time.Since(start))
				b.metrics.won(objstore.OpPut, result.attempt)
				return nil
			}
			r.fail(ctx, result)
			if r.pending == 0 {
				return r.worst
			}
		}
	}
}

func (r *putRace) start(ctx context.Context, attempt int) {
	r.pending++
	r.readers.Add(1)
	go func() {
		err := objstore.PutReleasing(ctx, r.bucket.inner, r.key, r.body, r.release)
		r.results <- putResult{attempt, err}
	}()
}

// fail keeps the least certain error, and looks at the object if it may be the other attempt's.
func (r *putRace) fail(ctx context.Context, result putResult) {
	if r.worst == nil || uncertainty(result.err) > uncertainty(r.worst) {
		r.worst = result.err
	}
	if !r.hedged || r.verified || !errors.Is(result.err, objstore.ErrAlreadyExists) {
		return
	}
	r.verified = true
	r.pending++
	go func() {
		err := durable.Verify(ctx, r.bucket.inner, r.key, r.body)
		if errors.Is(err, durable.ErrForeign) {
			err = result.err
		}
		r.results <- putResult{verification, err}
	}()
}

func uncertainty(err error) int {
	switch {
	case errors.Is(err, objstore.ErrOutcomeUnknown):
		return 2
	case errors.Is(err, objstore.ErrAlreadyExists):
		return 1
	default:
		return 0
	}
}
