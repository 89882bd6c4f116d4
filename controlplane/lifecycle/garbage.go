package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/bundle"
)

// roundBundles bounds the objects that one round deletes: 100 requests. More wait for the next round.
const roundBundles = 100 * objstore.MaxKeys

// dead is what a round found.
type dead struct {
	ripe    []id.Bundle // whose objects can be deleted, in order of their names
	waiting bool        // some wait for nothing but a snapshot
	count   int
	bytes   int64
}

// collect deletes the objects of bundles that are dead long enough, and then has them forgotten.
func (l *Lifecycle) collect(ctx context.Context, t Tenure) error {
	now, err := l.storeTime(ctx)
	if err != nil {
		return err
	}
	var found dead
	kept, grace := t.Kept(), l.cfg.Settings.GarbageGrace.Milliseconds()
	if _, err := t.Owner.ReadFrozen(func(s *metadata.State) { found = findDead(s, kept, min(now, s.Now())-grace) }); err != nil {
		return fmt.Errorf("look for dead bundles: %w", err)
	}
	l.metrics.garbage(found.count, found.bytes)
	if found.waiting {
		t.WantSnapshot()
	}
	for chunk := range slices.Chunk(found.ripe, objstore.MaxKeys) {
		if err := l.delete(ctx, t.Owner, chunk); err != nil {
			return err
		}
	}
	if len(found.ripe) > 0 {
		l.cfg.Log.Info("deleted dead bundles", zap.Int("objects", len(found.ripe)))
	}
	return nil
}

// findDead looks at all dead bundles. They can go if they were dead in the snapshot at index kept, and died at sinceMs or
// before.
func findDead(s *metadata.State, kept uint64, sinceMs int64) (found dead) {
	for name, b := range s.DeadBundles() {
		found.count++
		found.bytes += int64(b.Bytes)
		switch ripe := b.AtMs <= sinceMs; {
		case ripe && b.Index > kept:
			found.waiting = true
		case ripe && len(found.ripe) < roundBundles:
			found.ripe = append(found.ripe, name)
		}
	}
	return found
}

func (l *Lifecycle) delete(ctx context.Context, o Owner, bundles []id.Bundle) error {
	keys := make([]string, 0, len(bundles))
	for _, b := range bundles {
		keys = append(keys, bundle.Key(l.cfg.BundlePrefix, b))
	}
	if err := l.cfg.Bucket.Delete(ctx, keys); err != nil {
		return fmt.Errorf("delete %d objects: %w", len(keys), err)
	}
	result, _, err := o.Propose(ctx, &metadata.ForgetBundles{Bundles: bundles})
	if err != nil {
		return fmt.Errorf("forget %d bundles: %w", len(bundles), err)
	}
	l.metrics.deleted.Add(float64(result.Value.(int64)))
	return nil
}
