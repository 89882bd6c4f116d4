// Package meter counts what a bucket is asked for: the requests that an object store bills, their bytes, errors and
// durations. It belongs right around the provider, below hedging, so that every request is seen.
package meter

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/freshet-io/freshet/objstore"
)

// Bucket counts requests to another bucket.
type Bucket struct {
	inner   objstore.Bucket
	metrics *metrics
	counts  [objstore.NumOps]counter
}

var _ objstore.Bucket = (*Bucket)(nil)

type counter struct{ requests, errors, bytes atomic.Int64 }

// Count is what was asked of one operation so far.
type Count struct {
	Requests int64 // begun
	Errors   int64 // of them failed
	Bytes    int64 // object bytes sent by puts and parts that succeeded, received by gets
}

// Counts are the counts of all operations.
type Counts [objstore.NumOps]Count

// New meters a bucket. A nil registerer means a private registry. Two metered buckets need
// different registerers (prometheus.WrapRegistererWith).
func New(inner objstore.Bucket, reg prometheus.Registerer) *Bucket {
	reg = cmp.Or[prometheus.Registerer](reg, prometheus.NewRegistry())
	return &Bucket{inner: inner, metrics: newMetrics(reg)}
}

// Counts gives the counts so far. Operations are not counted at the same instant.
func (b *Bucket) Counts() Counts {
	var counts Counts
	for op := range counts {
		c := &b.counts[op]
		counts[op] = Count{c.requests.Load(), c.errors.Load(), c.bytes.Load()}
	}
	return counts
}

// Put puts and counts.
func (b *Bucket) Put(ctx context.Context, key string, body objstore.Body) error {
	return b.measure(objstore.OpPut, func() error {
		err := b.inner.Put(ctx, key, body)
		if err == nil {
			b.addBytes(objstore.OpPut, body.Size)
		}
		return err
	})
}

// Get gets and counts; the bytes count as they are read.
func (b *Bucket) Get(ctx context.Context, key string, offset, length int64) (r io.ReadCloser, err error) {
	err = b.measure(objstore.OpGet, func() error {
		r, err = b.inner.Get(ctx, key, offset, length)
		return err
	})
	if err != nil {
		return nil, err
	}
	return &countingReader{ReadCloser: r, bucket: b}, nil
}

type countingReader struct {
	io.ReadCloser
	bucket *Bucket
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.bucket.addBytes(objstore.OpGet, int64(n))
	return n, err
}

// Head heads and counts.
func (b *Bucket) Head(ctx context.Context, key string) (info objstore.Info, err error) {
	err = b.measure(objstore.OpHead, func() error {
		info, err = b.inner.Head(ctx, key)
		return err
	})
	return info, err
}

// List lists and counts.
func (b *Bucket) List(ctx context.Context, prefix, startAfter string, limit int) (page []objstore.Info, err error) {
	err = b.measure(objstore.OpList, func() error {
		page, err = b.inner.List(ctx, prefix, startAfter, limit)
		return err
	})
	return page, err
}

// Delete deletes and counts one request.
func (b *Bucket) Delete(ctx context.Context, keys []string) error {
	return b.measure(objstore.OpDelete, func() error { return b.inner.Delete(ctx, keys) })
}

// Now asks for the time and counts.
func (b *Bucket) Now(ctx context.Context) (now time.Time, err error) {
	err = b.measure(objstore.OpNow, func() error {
		now, err = b.inner.Now(ctx)
		return err
	})
	return now, err
}

// Close closes the metered bucket.
func (b *Bucket) Close() error { return b.inner.Close() }

func (b *Bucket) measure(op objstore.Op, request func() error) error {
	c := &b.counts[op]
	c.requests.Add(1)
	b.metrics.requests[op].Inc()
	b.metrics.inFlight[op].Inc()
	start := time.Now()
	defer func() {
		b.metrics.seconds[op].Observe(time.Since(start).Seconds())
		b.metrics.inFlight[op].Dec()
	}()
	err := request()
	if err != nil {
		c.errors.Add(1)
		b.metrics.errors.WithLabelValues(op.String(), kind(err)).Inc()
	}
	return err
}

func (b *Bucket) addBytes(op objstore.Op, n int64) {
	b.counts[op].bytes.Add(n)
	b.metrics.bytes[op].Add(float64(n))
}

// kinds are the label values of errors, the first that matches counts.
var kinds = []struct {
	err  error
	name string
}{
	{objstore.ErrNotFound, "not_found"},
	{objstore.ErrAlreadyExists, "already_exists"},
	{objstore.ErrThrottled, "throttled"},
	{objstore.ErrConflict, "conflict"},
	{objstore.ErrChecksum, "checksum"},
	{objstore.ErrRange, "range"},
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "timeout"},
	{objstore.ErrOutcomeUnknown, "outcome_unknown"},
}

func kind(err error) string {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "other"
}
