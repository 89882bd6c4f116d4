package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/wait"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

const (
	// scrubNote is after how many bundles the state is told where the scrubber is, for the owner after this one.
	scrubNote = 1000
	// nobodyPause is the pause where there is no agent to ask.
	nobodyPause = 5 * time.Second
	// checkTimeout is how long an agent may take for a bundle, of at most 4 GiB.
	checkTimeout = 10 * time.Minute
	// scrubTries is how often one bundle is tried that cannot be looked at, before the scrubber goes on to the next: it may be
	// that one alone.
	scrubTries = 3
	// scrubPause is the pause after a failure, and where there is nothing to look at.
	scrubPause = time.Minute
	// maxDamage bounds the damaged bundles that are remembered by name; the log has them all.
	maxDamage = 1000
)

// Checker has agents read bundles through: the control plane reads no records (I8).
type Checker interface {
	// CheckBundle gives what an agent found of a bundle, Unreadable if there is no answer before ctx ends; false if there is
	// no agent to ask.
	CheckBundle(ctx context.Context, name id.Bundle, bytes uint32) (f bundle.Finding, asked bool)
}

var (
	errNobody     = errors.New("no agent checks bundles")
	errUnreadable = errors.New("nobody knows what is stored of it")
)

// Damage is a live bundle that is missing from the store, or not what it should be. Nobody deletes it.
type Damage struct {
	Bundle  id.Bundle
	Key     string
	What    string
	FoundMs int64 // by the store's clock or, where that does not answer, 0
}

// scrub looks all live bundles up in the store, one after the other at a set rate, and has them read at another. The first
// walk is in the order of names and goes on over changes of owners; the second begins somewhere, since a tenure may be
// shorter than it takes.
func (l *Lifecycle) scrub(ctx context.Context, o Owner) {
	var work sync.WaitGroup
	if l.cfg.Settings.ScrubInterval > 0 {
		work.Go(func() { l.scrubPresence(ctx, o) })
	}
	if l.cfg.Settings.ScrubBytes > 0 && l.cfg.Checker != nil {
		work.Go(func() { l.scrubContents(ctx, o) })
	}
	work.Wait()
}

func (l *Lifecycle) scrubPresence(ctx context.Context, o Owner) {
	var at id.Bundle
	_, _ = o.Read(func(s *metadata.State) { at = s.Scrubbed() }) // else from the beginning
	noted, tries := at, 0
	for n := 1; wait.For(ctx, l.cfg.Settings.ScrubInterval) == nil; n++ {
		name, info, ok, err := nextBundle(o, at+1)
		switch {
		case err != nil:
		case !ok && at == 0: // nothing is live
			_ = wait.For(ctx, scrubPause)
		case !ok:
			at = 0
			l.metrics.scrubCycles.Inc()
			l.prune(o)
		default:
			if err = l.lookUp(ctx, o, name, info); goesOn(err, &tries) {
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
			_ = wait.For(ctx, scrubPause)
		}
	}
}

// scrubContents has bundles read through, each after a pause that its bytes are worth: it is read at once then. A bundle
// that has died in its pause is not read.
func (l *Lifecycle) scrubContents(ctx context.Context, o Owner) {
	at := id.Bundle(rand.Uint64()) //nolint:gosec // where to begin
	var newest id.Bundle
	_, _ = o.Read(func(s *metadata.State) { newest = s.NewestBundle() }) // else from the beginning
	at %= newest + 1
	tries := 0
	paused := time.Duration(0) // since the last bundle that was read
	for ctx.Err() == nil {
		name, info, ok, err := nextBundle(o, at)
		switch worth := l.readTime(info.Bytes); {
		case err != nil:
		case !ok:
			at = 0
			l.prune(o)
			_ = wait.For(ctx, scrubPause)
		case paused < worth:
			_ = wait.For(ctx, worth-paused)
			paused = worth
		default:
			paused = 0
			if err = l.read(ctx, o, name, info); goesOn(err, &tries) {
				at = name + 1
			}
		}
		switch {
		case err == nil, ctx.Err() != nil:
		case errors.Is(err, errNobody): // none runs jobs, which is somebody's will, or none is there yet
			_ = wait.For(ctx, nobodyPause)
		default:
			l.metrics.failures.Inc()
			l.cfg.Log.Warn("scrubber cannot have a bundle read, it tries again", zap.Error(err))
			_ = wait.For(ctx, scrubPause)
		}
	}
}

// goesOn tells whether the next bundle is to follow one whose check came to err.
func goesOn(err error, tries *int) bool {
	if errors.Is(err, errNobody) {
		return false
	}
	if *tries++; err != nil && *tries < scrubTries {
		return false
	}
	*tries = 0
	return true
}

// readTime is how long so many bytes take at the rate set.
func (l *Lifecycle) readTime(bytes uint32) time.Duration {
	return time.Duration(float64(bytes) / float64(l.cfg.Settings.ScrubBytes) * float64(time.Second))
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

// read has an agent check every checksum in a bundle, and notes what it finds.
func (l *Lifecycle) read(ctx context.Context, o Owner, name id.Bundle, known metadata.BundleInfo) error {
	asking, cancel := context.WithTimeout(ctx, checkTimeout)
	f, asked := l.cfg.Checker.CheckBundle(asking, name, known.Bytes)
	cancel()
	if !asked {
		return errNobody
	}
	l.metrics.scrubbedBytes.Add(float64(f.Read))
	switch f.Verdict {
	case bundle.Intact:
		l.clear(broken, name)
	case bundle.Missing:
		l.found(ctx, o, missing, name, f.What)
	case bundle.Broken:
		l.found(ctx, o, broken, name, f.What)
	case bundle.Later: // while agents are of several versions; it comes again with the next walk
		l.metrics.scrubbedLater.Inc()
		l.cfg.Log.Debug("bundle not checked: the agent asked does not know its version", zap.Stringer("bundle", name),
			zap.String("what", f.What))
	default:
		return fmt.Errorf("check %s: %w: %s", bundle.Key(l.cfg.BundlePrefix, name), errUnreadable, f.What)
	}
	return nil
}
