package lifecycle

import (
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/topicconfig"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// trimsPerCommand bounds the partitions that one command trims: applying it holds up commits.
const trimsPerCommand = 256

// retain raises the log start of every partition that has more than its retention keeps.
func (l *Lifecycle) retain(ctx context.Context, o Owner) error {
	now, err := l.storeTime(ctx)
	if err != nil {
		return err
	}
	var trims []metadata.RetentionTrim
	if _, err := o.ReadFrozen(func(s *metadata.State) { trims = dueTrims(s, min(now, s.Now())) }); err != nil {
		return fmt.Errorf("look for what is too old: %w", err)
	}
	trimmed := 0
	for chunk := range slices.Chunk(trims, trimsPerCommand) {
		n, err := trim(ctx, o, chunk)
		if err != nil {
			return fmt.Errorf("raise log starts: %w", err)
		}
		trimmed += n
	}
	l.metrics.trimmed.Add(float64(trimmed))
	if trimmed > 0 {
		l.cfg.Log.Info("raised log starts by retention", zap.Int("partitions", trimmed))
	}
	return nil
}

// trim raises the log starts of partitions whose topics still have the configs that the trims were decided by, and returns
// how many. Apply compares the configs.
func trim(ctx context.Context, o Owner, trims []metadata.RetentionTrim) (n int, err error) {
	result, _, err := o.Propose(ctx, &metadata.RetainPartitions{Trims: trims})
	if err != nil {
		return 0, err
	}
	for _, r := range result.Value.([]metadata.TrimResult) {
		if r.Err == nil { // else the topic was deleted or its configs changed
			n++
		}
	}
	return n, nil
}

// dueTrims walks all partitions; now is in ms since the epoch.
func dueTrims(s *metadata.State, now int64) []metadata.RetentionTrim {
	var trims []metadata.RetentionTrim
	cluster := s.Configs(metadata.ConfigBroker, "")
	for t := range s.Topics() {
		r, ok := retentionOf(t.Configs, cluster, now)
		if !ok {
			continue
		}
		configs, _ := s.CleanupConfigs(t.ID)
		for p := range t.Partitions {
			tp := id.TopicPartition{Topic: t.ID, Partition: p}
			w, _ := s.Watermarks(tp)
			if from := s.RetainedFrom(tp, r); from > w.LogStart {
				trims = append(trims, metadata.RetentionTrim{Trim: metadata.Trim{Partition: tp, Offset: from}, Configs: configs})
			}
		}
	}
	return trims
}

// retentionOf gives what a topic's configs keep; false if everything. Only the delete policy deletes by age or size.
func retentionOf(topic, cluster map[string]string, now int64) (metadata.Retention, bool) {
	v := topicconfig.Resolve(topic, cluster)
	r := metadata.Retention{SinceMs: metadata.KeepForever, Bytes: metadata.KeepForever}
	if !v.Delete {
		return r, false
	}
	if v.Retention >= 0 {
		r.SinceMs = now - v.Retention.Milliseconds()
	}
	if v.RetentionBytes >= 0 {
		r.Bytes = v.RetentionBytes
	}
	return r, r.SinceMs != metadata.KeepForever || r.Bytes != metadata.KeepForever
}
