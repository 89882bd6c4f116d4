package group

import (
	"context"
	"math"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/controlplane/group/step"
	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// offsetsPerRead bounds the offsets that one look at the state gives, and those that one command deletes.
const offsetsPerRead = 4096

// expireOffsets deletes expired offsets, and groups that have nothing left, every Settings.OffsetsRetentionCheck
// (GroupCoordinatorShard.cleanupGroupMetadata).
func (c *Coordinator) expireOffsets(ctx context.Context) {
	tick := time.NewTicker(c.cfg.Settings.OffsetsRetentionCheck)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		err := c.eachStored(func(name string) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return c.with(name, func(g *group) step.Step { return g.expireOffsets(time.Now()) })
		})
		if err != nil && ctx.Err() == nil {
			c.log.Warn("expired offsets not all deleted, the next round tries again", zap.Error(err))
		}
	}
}

// expireOffsets deletes the group's expired offsets, and the group if it is empty and nothing is left of it.
func (g *group) expireOffsets(now time.Time) step.Step {
	since, ok := time.Time{}, true
	if g.classic != nil {
		since, ok = g.classic.OffsetsExpire()
	}
	if !ok || !g.stored() {
		return step.Step{}
	}
	x := expiry{g: g, now: now, since: since, retention: g.c.cfg.Settings.OffsetsRetention}
	if err := x.find(); err != nil {
		return step.Step{} // the tenure is over
	}
	// A commit on its way is not in the state yet, and must not be lost with the group.
	if !x.kept && g.empty() && g.commits == 0 && g.pipe.idle() {
		g.c.log.Info("group deleted: it has no members and no offsets", zap.String("group", g.name))
		return g.remove()
	}
	for _, cmd := range x.commands {
		if err := g.c.enqueue(cmd, func(metadata.Result, error) {}); err != nil {
			break // the next round finds the rest
		}
		g.c.metrics.expired.Add(float64(len(cmd.Partitions)))
	}
	return step.Step{}
}

// expiry is the search for one group's expired offsets (OffsetMetadataManager.cleanupExpiredOffsets,
// OffsetExpirationConditionImpl).
type expiry struct {
	g         *group
	now       time.Time
	since     time.Time // when the retention began; zero: with each commit
	retention time.Duration
	commands  []*metadata.DeleteOffsets
	kept      bool // something of the group stays
}

func (x *expiry) find() error {
	var from id.TopicPartition
	for more := true; more; {
		cmd := &metadata.DeleteOffsets{Group: x.g.name}
		if _, err := x.g.c.owner.Read(func(s *metadata.State) { from, more = x.read(s, from, cmd) }); err != nil {
			return err
		}
		if len(cmd.Partitions) > 0 {
			x.commands = append(x.commands, cmd)
		}
	}
	return nil
}

// read looks at some offsets from a partition on, adds the expired ones to cmd, and gives where to go on.
func (x *expiry) read(s *metadata.State, from id.TopicPartition, cmd *metadata.DeleteOffsets) (next id.TopicPartition, more bool) {
	if _, pending := s.HasOffsets(x.g.name); pending || s.HasDeletedOffsets(x.g.name) {
		x.kept = true // offsets of a deleted topic come back with it
	}
	// A clock that runs ahead expires nothing: command time does not follow it (package replica).
	x.now = earlier(x.now, time.UnixMilli(s.Now()))
	n, topic, subscribed := 0, id.Topic{}, false
	for tp, o := range s.OffsetsFrom(x.g.name, from) {
		if n == offsetsPerRead {
			return tp, true
		}
		if n == 0 || tp.Topic != topic {
			topic, subscribed = tp.Topic, false
			if t, ok := s.Topic(topic); ok {
				subscribed = x.g.subscribed(t.Name)
			} else if t := internaltopic.ByID(topic); t != nil {
				subscribed = x.g.subscribed(t.Name)
			}
		}
		n++
		if subscribed || !x.expired(o) || s.PendingOffset(x.g.name, tp) {
			x.kept = true
			continue
		}
		cmd.Partitions = append(cmd.Partitions, tp)
		cmd.CommittedBefore = append(cmd.CommittedBefore, o.CommittedMs)
	}
	return id.TopicPartition{Partition: math.MaxInt32}, false
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (x *expiry) expired(o metadata.Offset) bool {
	if o.ExpiresMs >= 0 {
		return x.now.UnixMilli() >= o.ExpiresMs
	}
	since := x.since
	if since.IsZero() {
		since = time.UnixMilli(o.CommittedMs)
	}
	return x.now.Sub(since) >= x.retention
}
