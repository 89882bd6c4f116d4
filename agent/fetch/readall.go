package fetch

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/freshet-io/freshet/agent/cache"
)

// Bounds of the wait for bytes that are not in memory.
const (
	// fairWait is the least time that a fetch waits for its first partitions while others have records ready. Without
	// it a partition could be left out of every answer of a client that does not wait at all.
	fairWait = 100 * time.Millisecond
	// readTurn is how long one partition is waited for while no partition has records ready.
	readTurn = 100 * time.Millisecond
)

// errNotReady ends the wait for one partition's bytes. Their GET goes on for the next fetch.
var errNotReady = errors.New("bytes are not in memory yet")

// readAll reads the planned partitions in the request's order and within its bounds. It reports whether an object was
// gone.
//
//   - A partition whose bytes are not in memory is waited for while the answer has less than min bytes, until max wait
//     (or fairWait) is over. Its GET goes on for the next fetch.
//   - After that, records in memory are the answer. If there are none, the partitions are waited for in turns.
//
// At the live edge the first partition is waited for. Behind it, partitions whose bytes are in memory or on their way go
// first, so that read-ahead bytes are used before more are read.
func (a *attempt) readAll(ctx context.Context) (gone bool) {
	readers := a.readers()
	a.startLive(readers)
	a.ahead(readers)
	b := bounds{left: a.req.MaxBytes}
	until := a.deadline
	if fair := time.Now().Add(fairWait); until.Before(fair) {
		until = fair
	}
	first, cancel := context.WithDeadlineCause(ctx, until, errNotReady)
	defer cancel()
	gone = a.readFirst(first, readers, &b)
	if a.resp.Bytes == 0 && !gone && !a.failed() {
		gone = a.readTurns(ctx, readers, &b)
	}
	if b.single {
		a.f.metrics.shrunk.Inc()
	}
	for i := range readers {
		readers[i].noteEnd()
	}
	return gone
}

// startLive begins the GETs of what this answer may bring from the live edge, side by side.
func (a *attempt) startLive(readers []reader) {
	left := a.req.MaxBytes
	for i := range readers {
		if r := &readers[i]; r.class == cache.Live && (left > 0 || i == 0) {
			left -= r.startAll(r.below(), min(left, r.partition.MaxBytes))
		}
	}
}

// readFirst reads every partition, and those again whose bytes are to be waited for.
func (a *attempt) readFirst(ctx context.Context, readers []reader, b *bounds) (gone bool) {
	var cold []*reader
	for i := range readers {
		r := &readers[i]
		gone = a.readOne(ctx, r, b, r.class == cache.Live) || gone
		if r.class == cache.CatchUp {
			cold = append(cold, r)
		}
	}
	slices.SortStableFunc(cold, func(x, y *reader) int { return cmp.Compare(y.state, x.state) })
	for _, r := range cold {
		if !r.waiting {
			continue
		}
		if a.resp.Bytes > 0 && a.resp.Bytes >= a.req.MinBytes || ctx.Err() != nil {
			break
		}
		if len(r.next.Extents) > 0 { // the GET is long here too, whatever was begun for others
			a.f.cfg.Bytes.Ahead(a.req.Reader, []cache.Next{r.next})
		}
		gone = a.readOne(ctx, r, b, true) || gone
	}
	return gone
}

// readTurns waits until a partition has records or fails. When ctx ends, all fail that still wait.
func (a *attempt) readTurns(ctx context.Context, readers []reader, b *bounds) (gone bool) {
	for turn := 0; a.resp.Bytes == 0 && !gone && !a.failed(); turn++ {
		var waiting []*reader
		for i := range readers {
			if r := &readers[i]; r.waiting {
				gone = a.readOne(ctx, r, b, false) || gone
				waiting = append(waiting, r)
			}
		}
		switch {
		case len(waiting) == 0 || a.resp.Bytes > 0 || gone || a.failed():
			return gone
		case ctx.Err() != nil:
			for _, r := range waiting {
				r.result.fail(a.f.translate(context.Cause(ctx), r.partition))
			}
			return gone
		}
		wait, cancel := context.WithTimeoutCause(ctx, readTurn, errNotReady)
		gone = a.readOne(wait, waiting[turn%len(waiting)], b, true)
		cancel()
	}
	return gone
}

// bounds limit what an answer may still read.
type bounds struct {
	left   int  // bytes
	single bool // only one batch: unsent answers press
}

// readers returns the partitions that have something to read.
func (a *attempt) readers() []reader {
	list := make([]reader, 0, len(a.read))
	for n, i := range a.read {
		plan, result := &a.plans[n], &a.resp.Results[i]
		if result.Err != nil || len(plan.Extents) == 0 || plan.Extents[0].Base >= plan.End {
			continue
		}
		list = append(list, reader{
			attempt: a, partition: &a.req.Partitions[i], plan: plan, result: result, class: class(plan),
		})
	}
	return list
}

// readOne reads one partition and reports whether an object was gone. It continues where it stopped for bytes that were not
// in memory. A patient reader waits for bytes that are not in memory until the answer has min bytes or ctx ends.
func (a *attempt) readOne(ctx context.Context, r *reader, b *bounds, patient bool) bool {
	if a.resp.Bytes > 0 && (b.left <= 0 || b.single) {
		return false
	}
	before := r.result.Size
	r.budget, r.first, r.single = min(b.left+before, r.partition.MaxBytes), a.resp.Bytes == 0, b.single
	r.others, r.waiting = a.resp.Bytes-before, false
	expired := errors.Is(context.Cause(ctx), errNotReady)
	r.patient = patient && !expired && (a.resp.Bytes == 0 || a.resp.Bytes < a.req.MinBytes)
	err := r.read(ctx)
	r.result.Aborted = within(r.plan.Aborted, r.end) // also of records read before an error
	b.single = r.single
	brought := r.result.Size - before
	var gone *cache.GoneError
	a.resp.Bytes += brought
	b.left -= brought
	a.f.metrics.bytes[r.class].Add(float64(brought))
	switch {
	case errors.Is(err, errNotReady):
		r.waiting = true
	case errors.Is(err, errKnownMissing):
		return true
	case errors.As(err, &gone):
		a.f.metrics.gone.Inc()
		planned := a.planned
		if r.plan.Stale {
			planned = 0
		}
		a.f.lost.noteMissing(lostKey{partition: r.partition.ID, bundle: gone.Bundle}, planned, gone, r.from())
		return true
	case err != nil && r.result.Size == 0:
		r.result.fail(a.f.translate(err, r.partition))
	}
	return false
}
