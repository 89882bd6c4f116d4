// Package hedge cuts the tail of an object store's latency: a put or get that takes longer than most is sent a second
// time, and the first success counts.
//
// Hedging a put is safe because it is create-only: both attempts carry the same bytes under the same key, one creates
// the object, the other is told that it exists. When that answer comes first, the object is looked at at once
// (durable.Verify), since the winner's answer may be the one that is lost.
//
// A second attempt is made when the first has taken as long as 95 % of recent requests of its operation and size class
// did, or for a fixed time while too few were observed; for at most 5 % of requests; and not at all while the store
// throttles.
//
// A put's attempts read the same buffers. Put returns when all of them have stopped; PutReleasing returns on the
// first success and tells later when the buffers are free, which is after the losing attempt was cancelled.
package hedge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/objstore"
)

// Config bounds hedging. Zero fields take the defaults.
type Config struct {
	// Quantile of recent durations after which a request is hedged. Default 0.95.
	Quantile float64
	// MaxShare bounds hedges as a share of requests, per operation. Default 0.05.
	MaxShare float64
	// Burst bounds how many unused hedges are saved up. Default 5.
	Burst int
	// Window is how long a duration counts. Default 5 min.
	Window time.Duration
	// MinSamples is how many durations are needed before their quantile counts. Default 20.
	MinSamples int
	// ColdDelay is the time before a hedge until then. Default 2 s, more than a healthy store takes for any request.
	ColdDelay time.Duration
	// MinDelay is the least time before a hedge. Default 5 ms.
	MinDelay time.Duration
}

// ApplyDefaults fills the fields left zero.
func (c *Config) ApplyDefaults() {
	c.Quantile = cmp.Or(c.Quantile, 0.95)
	c.MaxShare = cmp.Or(c.MaxShare, 0.05)
	c.Burst = cmp.Or(c.Burst, 5)
	c.Window = cmp.Or(c.Window, 5*time.Minute)
	c.MinSamples = cmp.Or(c.MinSamples, 20)
	c.ColdDelay = cmp.Or(c.ColdDelay, 2*time.Second)
	c.MinDelay = cmp.Or(c.MinDelay, 5*time.Millisecond)
}

// Validate gives all faults of the configuration at once.
func (c *Config) Validate() error {
	var faults []error
	if c.Quantile <= 0 || c.Quantile >= 1 {
		faults = append(faults, fmt.Errorf("hedge quantile %v is not between 0 and 1", c.Quantile))
	}
	if c.MaxShare < 0 || c.MaxShare > 1 {
		faults = append(faults, fmt.Errorf("hedge share %v is not between 0 and 1", c.MaxShare))
	}
	if c.Burst < 1 || c.MinSamples < 1 || c.Window <= 0 || c.ColdDelay <= 0 || c.MinDelay < 0 {
		faults = append(faults, errors.New("hedge burst, samples, window and pauses are positive"))
	}
	return errors.Join(faults...)
}

// Bucket hedges the puts and gets of another bucket.
type Bucket struct {
	inner   objstore.Bucket
	metrics *metrics
	puts    *policy
	gets    *policy
}

var _ objstore.ReleasingBucket = (*Bucket)(nil)

// New hedges inner. A nil registerer means a private registry. Metering belongs below, around inner, so that hedges
// are counted.
func New(inner objstore.Bucket, config Config, reg prometheus.Registerer) (*Bucket, error) {
	config.ApplyDefaults()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	return &Bucket{
		inner: inner, metrics: newMetrics(reg), puts: newPolicy(config), gets: newPolicy(config),
	}, nil
}

// Put puts, and returns when every attempt has stopped reading the buffers.
func (b *Bucket) Put(ctx context.Context, key string, body objstore.Body) error {
	free := make(chan struct{})
	err := b.PutReleasing(ctx, key, body, func() { close(free) })
	<-free
	return err
}

// Head is not hedged.
func (b *Bucket) Head(ctx context.Context, key string) (objstore.Info, error) {
	return b.inner.Head(ctx, key)
}

// List is not hedged.
func (b *Bucket) List(ctx context.Context, prefix, startAfter string, limit int) ([]objstore.Info, error) {
	return b.inner.List(ctx, prefix, startAfter, limit)
}

// Delete is not hedged.
func (b *Bucket) Delete(ctx context.Context, keys []string) error { return b.inner.Delete(ctx, keys) }

// Now is not hedged.
func (b *Bucket) Now(ctx context.Context) (time.Time, error) { return b.inner.Now(ctx) }

// Close closes the hedged bucket. Cancelled attempts may still end after it.
func (b *Bucket) Close() error { return b.inner.Close() }

// Get opens a range, by whichever attempt answers first. ErrNotFound and ErrRange of either are final.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	r := &getRace{results: make(chan getResult, 2)}
	attempt := func(i int) {
		attemptCtx, cancel := context.WithCancel(ctx)
		r.cancels[i] = cancel
		go func() {
			body, err := b.inner.Get(attemptCtx, key, offset, length)
			r.results <- getResult{attempt: i, body: body, err: err}
		}()
		r.pending++
	}
	defer r.abandon()
	class := classOf(length)
	start := time.Now()
	hedge := b.gets.timer(class)
	defer hedge.Stop()
	attempt(0)
	for {
		select {
		case <-hedge.C:
			if b.mayHedge(b.gets, objstore.OpGet) {
				attempt(1)
			}
		case result := <-r.results:
			r.pending--
			b.gets.noteError(result.err)
			if result.err == nil {
				b.gets.observe(class, time.Since(start))
				b.metrics.won(objstore.OpGet, result.attempt)
				return r.win(result), nil
			}
			final := errors.Is(result.err, objstore.ErrNotFound) || errors.Is(result.err, objstore.ErrRange)
			if final || r.pending == 0 {
				return nil, result.err
			}
		}
	}
}

// getRace is one get's attempts. It is used by one goroutine but for the channel.
type getRace struct {
	results chan getResult
	cancels [2]context.CancelFunc
	pending int
}

type getResult struct {
	attempt int
	body    io.ReadCloser
	err     error
}

// win keeps the winner's context until its reader is closed.
func (r *getRace) win(result getResult) io.ReadCloser {
	cancel := r.cancels[result.attempt]
	r.cancels[result.attempt] = nil
	return &cancellingReader{ReadCloser: result.body, cancel: cancel}
}

// abandon cancels the attempts that did not win and closes what they still open.
func (r *getRace) abandon() {
	for _, cancel := range r.cancels {
		if cancel != nil {
			cancel()
		}
	}
	if r.pending == 0 {
		return
	}
	go func() {
		for range r.pending {
			if late := <-r.results; late.body != nil {
				late.body.Close()
			}
		}
	}()
}

type cancellingReader struct {
	io.ReadCloser
	cancel context.CancelFunc
	once   sync.Once
}

func (r *cancellingReader) Close() error {
	err := r.ReadCloser.Close()
	r.once.Do(r.cancel)
	return err
}

// mayHedge asks for leave to make a second attempt now.
func (b *Bucket) mayHedge(p *policy, op objstore.Op) bool {
	reason, ok := p.take()
	if !ok {
		b.metrics.suppressed(op, reason)
		return false
	}
	b.metrics.hedged(op)
	return true
}
