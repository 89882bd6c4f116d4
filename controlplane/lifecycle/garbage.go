package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/errand"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
)

// roundBundles bounds the objects that one round deletes: 100 errands. More wait for the next round. Bundles that are held back do not
// count.
const roundBundles = 100 * objstore.MaxKeys

// dead is the outcome of a look at the dead bundles.
type dead struct {
	ripe    []id.Bundle // bundles whose objects can be deleted, by name. Bundles that failed before come last.
	oldest  int64       // death of the oldest of them in ms; 0 if there are none
	waiting bool        // some wait for nothing but a snapshot
	count   int
	bytes   int64
}

// collect deletes the objects of bundles that are dead long enough, and then forgets them. A bundle whose object cannot be deleted
// waits longer each time; the others go on, unless nothing can be deleted several times in a row.
func (l *Lifecycle) collect(ctx context.Context, t Tenure) error {
	now, err := l.storeTime(ctx)
	if err != nil {
		return err
	}
	var found dead
	kept, grace := t.Kept(), l.cfg.Settings.GarbageGrace.Milliseconds()
	_, err = t.Owner.ReadFrozen(func(s *metadata.State) {
		found = l.findDead(s, kept, min(now, s.Now())-grace, roundBundles)
		l.metrics.cleanup.Set(float64(s.CleanupExtents()))
	})
	if err != nil {
		return fmt.Errorf("look for dead bundles: %w", err)
	}
	l.metrics.garbage(found.count, found.bytes)
	if found.waiting {
		t.WantSnapshot()
	}
	deleted, err := l.deleteAll(ctx, t.Owner, found.ripe)
	if ctx.Err() == nil {
		l.noteAgents(errors.Is(err, errand.ErrNoAgent), now-found.oldest)
	}
	l.metrics.held(len(l.heldBack), l.heldBack.oldest(time.Now()))
	if deleted > 0 {
		l.cfg.Log.Info("deleted dead bundles", zap.Int("objects", deleted))
	}
	if errors.Is(err, errand.ErrNoAgent) {
		return nil
	}
	return err
}

// noteAgents notes whether garbage waits for an agent, and the age of the oldest bundle that does. It logs a change.
func (l *Lifecycle) noteAgents(waits bool, ageMs int64) {
	if !waits {
		ageMs = 0
	}
	l.metrics.waits.Set(float64(ageMs) / 1000)
	switch {
	case waits && !l.waits:
		l.cfg.Log.Warn("dead bundles are not deleted before an agent with the jobs role connects", zap.Int64("oldest_seconds", ageMs/1000))
	case !waits && l.waits:
		l.cfg.Log.Info("dead bundles are deleted again")
	}
	l.waits = waits
}

// findDead looks at all dead bundles. They can go if they were dead in the snapshot at index kept, and died at sinceMs or
// before. It returns at most limit of them, and none that is held back.
func (l *Lifecycle) findDead(s *metadata.State, kept uint64, sinceMs int64, limit int) (found dead) {
	l.heldBack.retain(func(b id.Bundle) bool { _, live, _, ok := s.Bundle(b); return ok && live == 0 })
	var again []id.Bundle
	now := time.Now()
	for name, b := range s.DeadBundles() {
		found.count++
		found.bytes += int64(b.Bytes)
		if b.AtMs > sinceMs {
			continue
		}
		if b.Index > kept {
			found.waiting = true
			continue
		}
		_, failed := l.heldBack[name]
		if failed && l.heldBack.waits(name, now) {
			continue
		}
		if found.oldest == 0 || b.AtMs < found.oldest {
			found.oldest = b.AtMs
		}
		if !failed && len(found.ripe) < limit {
			found.ripe = append(found.ripe, name)
		} else if failed && len(again) < limit {
			again = append(again, name)
		}
	}
	found.ripe = append(found.ripe, again[:min(len(again), limit-len(found.ripe))]...)
	return found
}

// deleteAll deletes the objects of the bundles, and proposes ForgetBundles for those whose objects are gone. It returns errand.ErrNoAgent if
// the last bundles wait for an agent.
func (l *Lifecycle) deleteAll(ctx context.Context, o Owner, bundles []id.Bundle) (deleted int, err error) {
	var errs []error
	inARow, lines := 0, 0
	for chunk := range slices.Chunk(bundles, objstore.MaxKeys) {
		gone, err := l.delete(ctx, chunk, &lines)
		if errors.Is(err, errand.ErrNoAgent) {
			return deleted, err
		}
		if err != nil {
			errs = append(errs, err)
		}
		if err := l.forget(ctx, o, gone); err != nil {
			return deleted, err
		}
		deleted += len(gone)
		if len(gone) > 0 {
			inARow = 0
		} else if inARow++; inARow == maxFailures || ctx.Err() != nil {
			break
		}
	}
	if len(errs) > 0 {
		return deleted, fmt.Errorf("%d errands failed: %w", len(errs), errs[0])
	}
	return deleted, nil
}

// delete deletes the objects of one errand's bundles, and returns the bundles whose objects are gone. It holds back the others, unless they
// wait for an agent. err is set if the whole errand failed. Refusals of single objects are logged, at most loggedKeys a round.
func (l *Lifecycle) delete(ctx context.Context, bundles []id.Bundle, lines *int) (gone []id.Bundle, err error) {
	failed, err := l.cfg.Agents.DeleteBundles(ctx, bundles)
	if errors.Is(err, errand.ErrNoAgent) {
		return nil, err
	}
	for _, b := range bundles {
		if err == nil && failed[b] == nil {
			gone = append(gone, b)
			continue
		}
		l.heldBack.note(b, time.Now(), l.cfg.Settings.GarbageCheck)
		if err == nil && *lines < loggedKeys && l.heldBack.logDue(b, time.Now()) {
			*lines++
			l.logRefused(b, failed[b])
		}
	}
	return gone, err
}

// forget proposes ForgetBundles for bundles whose objects are gone.
func (l *Lifecycle) forget(ctx context.Context, o Owner, gone []id.Bundle) error {
	if len(gone) == 0 {
		return nil
	}
	result, _, err := o.Propose(ctx, &metadata.ForgetBundles{Bundles: gone})
	if err != nil {
		return fmt.Errorf("forget %d bundles: %w", len(gone), err)
	}
	l.metrics.deleted.Add(float64(result.Value.(int64)))
	for _, b := range gone {
		l.heldBack.clear(b)
	}
	return nil
}
