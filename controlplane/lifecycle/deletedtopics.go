package lifecycle

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
)

// purge gives up deleted topics whose time is over. Their bundles die as their extents are worked off.
func (l *Lifecycle) purge(ctx context.Context, o Owner) error {
	now, err := l.storeTime(ctx)
	if err != nil {
		return err
	}
	var due []metadata.PurgedTopic
	var names []string
	var count int
	var bytes int64
	_, err = o.ReadFrozen(func(s *metadata.State) {
		now = min(now, s.Now())
		for t := range s.DeletedTopics() {
			count, bytes = count+1, bytes+t.Bytes
			if now-t.AtMs >= t.KeepMs {
				due, names = append(due, metadata.PurgedTopic{ID: t.ID, Index: t.Index}), append(names, t.Name)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("look for deleted topics: %w", err)
	}
	l.metrics.deletedTopics.Set(float64(count))
	l.metrics.deletedBytes.Set(float64(bytes))
	if len(due) == 0 {
		return nil
	}
	result, _, err := o.Propose(ctx, &metadata.PurgeTopics{Topics: due})
	if err != nil {
		return fmt.Errorf("purge %d topics: %w", len(due), err)
	}
	l.metrics.purged.Add(float64(result.Value.(int64)))
	l.cfg.Log.Info("purged deleted topics", zap.Strings("topics", names[:min(len(names), loggedKeys)]), zap.Int("count", len(due)))
	return nil
}
