package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

const (
	// scrubNote is after how many bundles the state is told where the scrubber is, for the owner after this one.
	scrubNote = 1000
	// scrubWindow is how much of a bundle's content one GET brings.
	scrubWindow = 4 << 20
	// scrubPause is the pause after a failure, and where there is nothing to look at.
	scrubPause = time.Minute
	// maxDamage bounds the damaged bundles that are remembered by name; the log has them all.
	maxDamage = 1000
)

// Damage is a live bundle that is missing from the store, or not what it should be. Nobody deletes it.
type Damage struct {
	Bundle  id.Bundle
	Key     string
	What    string
	FoundMs int64 // by the store's clock or, where that does not answer, 0
}

// scrub looks all live bundles up in the store, one after the other at a set rate, and reads them at another. The first
// walk is in the order of names and goes on over changes of owners; the second begins somewhere, since a tenure may be
// shorter than it takes.
func (l *Lifecycle) scrub(ctx context.Context, o Owner) {
	var work sync.WaitGroup
	if l.cfg.Settings.ScrubInterval > 0 {
		work.Go(func() { l.scrubPresence(ctx, o) })
	}
	if l.cfg.Settings.ScrubBytes > 0 {
		work.Go(func() { l.scrubContents(ctx, o) })
	}
	work.Wait()
}

func (l *Lifecycle) scrubPresence(ctx context.Context, o Owner) {
	var at id.Bundle
	_, _ = o.Read(func(s *metadata.State) { at = s.Scrubbed() }) // else from the beginning
	noted := at
	for n := 1; l.pause(ctx, l.cfg.Settings.ScrubInterval); n++ {
		name, info, ok, err := nextBundle(o, at+1)
		switch {
		case err != nil:
		case !ok && at == 0: // nothing is live
			l.pause(ctx, scrubPause)
		case !ok:
			at = 0
			l.metrics.scrubCycles.Inc()
			l.prune(o)
		default:
			if err = l.lookUp(ctx, o, name, info); err == nil {
				at = name
			}
		}
		if err == nil && at != noted && (n%scrubNote == 0 || !ok) {
			if _, _, err = o.Propose(ctx, &metadata.RecordScrub{To: at}); err == nil {
				noted = at
			}
		}
		if err != nil && ctx.Err() == nil {
			l.metrics.failures.Inc()
			l.cfg.Log.Warn("scrubber cannot look a bundle up, it tries again", zap.Error(err))
			l.pause(ctx, scrubPause)
		}
	}
}

func (l *Lifecycle) scrubContents(ctx context.Context, o Owner) {
	limit := rate.NewLimiter(rate.Limit(l.cfg.Settings.ScrubBytes), scrubWindow)
	limit.AllowN(time.Now(), scrubWindow) // nothing was saved up
	at := id.Bundle(rand.Uint64())        //nolint:gosec // where to begin
	var newest id.Bundle
	_, _ = o.Read(func(s *metadata.State) { newest = s.NewestBundle() }) // else from the beginning
	at %= newest + 1
	for ctx.Err() == nil {
		name, info, ok, err := nextBundle(o, at)
		switch {
		case err != nil:
		case !ok:
			at = 0
			l.prune(o)
			l.pause(ctx, scrubPause)
		default:
			if err = l.read(ctx, o, limit, name, info); err == nil {
				at = name + 1
			}
		}
		if err != nil && ctx.Err() == nil {
			l.metrics.failures.Inc()
			l.cfg.Log.Warn("scrubber cannot read a bundle, it tries again", zap.Error(err))
			l.pause(ctx, scrubPause)
		}
	}
}

// pause waits; false when ctx has ended.
func (l *Lifecycle) pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// nextBundle gives the first live bundle from a name on.
func nextBundle(o Owner, from id.Bundle) (name id.Bundle, info metadata.BundleInfo, ok bool, err error) {
	_, err = o.Read(func(s *metadata.State) {
		for name, info = range s.BundlesFrom(from) {
			ok = true
			return
		}
	})
	return name, info, ok, err
}

// lookUp compares what the store says of a bundle with what is known.
func (l *Lifecycle) lookUp(ctx context.Context, o Owner, name id.Bundle, known metadata.BundleInfo) error {
	key := bundle.Key(l.cfg.BundlePrefix, name)
	found, err := l.cfg.Bucket.Head(ctx, key)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		l.found(ctx, o, missing, name, "missing")
	case err != nil:
		return fmt.Errorf("look up %s: %w", key, err)
	case found.Size != int64(known.Bytes):
		l.found(ctx, o, missing, name, fmt.Sprintf("%d bytes, %d expected", found.Size, known.Bytes))
	default:
		l.clear(missing, name)
	}
	l.metrics.scrubbed.Inc()
	return nil
}

// read checks every checksum in a bundle.
func (l *Lifecycle) read(ctx context.Context, o Owner, limit *rate.Limiter, name id.Bundle, known metadata.BundleInfo) error {
	r := &rangeReader{ctx: ctx, l: l, limit: limit, key: bundle.Key(l.cfg.BundlePrefix, name), size: int64(known.Bytes)}
	got, err := bundle.Check(r, r.size)
	switch {
	case errors.Is(err, bundle.ErrMalformed) || errors.Is(err, objstore.ErrChecksum):
		l.found(ctx, o, broken, name, err.Error())
	case errors.Is(err, objstore.ErrNotFound):
		l.found(ctx, o, missing, name, "missing")
	case errors.Is(err, objstore.ErrRange):
		l.found(ctx, o, missing, name, fmt.Sprintf("less than the %d bytes expected", r.size))
	case err != nil:
		return fmt.Errorf("check %s: %w", r.key, err)
	case got != name.Submission():
		l.found(ctx, o, broken, name, fmt.Sprintf("it is bundle %d/%d", got.Session, got.N))
	default:
		l.clear(broken, name)
	}
	return nil
}

// rangeReader reads an object by ranges of scrubWindow, at the scrubber's rate. It implements io.ReaderAt for one reader
// at a time.
type rangeReader struct {
	ctx   context.Context //nolint:containedctx // an io.ReaderAt has none
	l     *Lifecycle
	limit *rate.Limiter
	key   string
	size  int64

	from int64
	data []byte // of the object from there on
}

// ReadAt implements io.ReaderAt.
func (r *rangeReader) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		if at >= r.size {
			return n, io.EOF
		}
		if at < r.from || at >= r.from+int64(len(r.data)) {
			if err := r.fetch(at); err != nil {
				return n, err
			}
		}
		c := copy(p[n:], r.data[at-r.from:])
		n, at = n+c, at+int64(c)
	}
	return n, nil
}

func (r *rangeReader) fetch(at int64) error {
	want := min(scrubWindow, r.size-at)
	if err := r.limit.WaitN(r.ctx, int(want)); err != nil {
		return fmt.Errorf("wait to read: %w", err)
	}
	body, err := r.l.cfg.Bucket.Get(r.ctx, r.key, at, want)
	if err != nil {
		return fmt.Errorf("get: %w", err)
	}
	defer body.Close()
	data, err := io.ReadAll(io.LimitReader(body, want))
	if err != nil {
		return fmt.Errorf("read: %w", err)
	}
	if len(data) == 0 {
		return io.ErrUnexpectedEOF
	}
	r.l.metrics.scrubbedBytes.Add(float64(len(data)))
	r.from, r.data = at, data
	return nil
}
