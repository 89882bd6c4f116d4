package perf

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/freshet-io/freshet/bench/load"
)

// ErrCatchup says that groups did not catch up in Config.CatchupLimit.
var ErrCatchup = errors.New("no group caught up")

// catchUp builds a backlog while consumers pause, lets them read it, and measures until one of the groups has received a
// record that was sent after the backlog ended.
func (t *test) catchUp(ctx context.Context) (*Result, error) {
	t.say("Pausing consumers for %v to build up backlog...", t.cfg.Backlog)
	if err := t.stopGroups(); err != nil {
		return nil, err
	}
	began := time.Now()
	t.measureOn()
	if _, err := t.collect(ctx, lasting(t.cfg.Backlog)); err != nil {
		return nil, err
	}
	ended := time.Now()
	t.say("Resetting consumer offsets and resuming...")
	behind, err := t.setBack(ctx, began, t.cfg.GroupDelay)
	if err != nil {
		return nil, err
	}
	resumed := t.resumedTopics()
	t.say("Resuming the consumers of %d topics out of %d", len(resumed), len(t.topics))
	t.measureFrom(behind)
	t.rate.Set(float64(t.cfg.CatchupRate))
	if err := t.startGroups(resumed); err != nil {
		return nil, err
	}
	return t.collectCatchup(ctx, ended)
}

func (t *test) collectCatchup(ctx context.Context, until time.Time) (*Result, error) {
	caughtUp := false
	result, err := t.collect(ctx, func(elapsed time.Duration) bool {
		if caughtUp {
			return true // an interval after it was seen: by now the records that showed it are counted
		}
		for _, g := range t.groups {
			caughtUp = caughtUp || g.seen.after(until)
		}
		return !caughtUp && elapsed >= t.cfg.CatchupLimit
	})
	if err == nil && !caughtUp {
		return nil, fmt.Errorf("%w: in %v", ErrCatchup, t.cfg.CatchupLimit)
	}
	return result, err
}

// resumedTopics chooses those whose consumers take part: a percentage, rounded up, at least one.
func (t *test) resumedTopics() []load.Topic {
	all := append([]load.Topic(nil), t.topics...)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	n := (len(all)*t.cfg.CatchupPercent + 99) / 100
	return all[:max(1, n)]
}

// setBack commits for every group, which must be empty, the offsets of the first records sent at a time or later, for
// each group a delay later than for the one before. It gives how many records the groups have to receive to be at the end.
func (t *test) setBack(ctx context.Context, to time.Time, delay time.Duration) (behind int64, err error) {
	names := make([]string, len(t.topics))
	for i, topic := range t.topics {
		names[i] = topic.Name
	}
	ends, err := t.listOffsets(t.admin.ListEndOffsets(ctx, names...))
	if err != nil {
		return 0, err
	}
	for _, g := range t.groups {
		starts, err := t.listOffsets(t.admin.ListOffsetsAfterMilli(ctx, to.Add(time.Duration(g.index)*delay).UnixMilli(), names...))
		if err != nil {
			return 0, err
		}
		starts.Each(func(o kadm.ListedOffset) {
			end, _ := ends.Lookup(o.Topic, o.Partition)
			behind += max(0, end.Offset-o.Offset)
		})
		for _, name := range names {
			if err := t.commit(ctx, groupName(name, g.index), starts[name]); err != nil {
				return 0, err
			}
		}
	}
	return behind, nil
}

func (t *test) listOffsets(listed kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	if err == nil {
		err = listed.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("list offsets: %w", err)
	}
	return listed, nil
}

func (t *test) commit(ctx context.Context, group string, listed map[int32]kadm.ListedOffset) error {
	offsets := kadm.Offsets{}
	for _, o := range listed {
		offsets.AddOffset(o.Topic, o.Partition, o.Offset, -1)
	}
	answers, err := t.admin.CommitOffsets(ctx, group, offsets)
	if err == nil {
		err = answers.Error()
	}
	if err != nil {
		return fmt.Errorf("set back group %s: %w", group, err)
	}
	return nil
}

// readOldTopics measures how topics of an earlier test are read from their start, without producing.
func (t *test) readOldTopics(ctx context.Context) (*Result, error) {
	behind, err := t.setBack(ctx, time.UnixMilli(0), 0)
	if err != nil {
		return nil, err
	}
	t.measureFrom(behind)
	if err := t.startGroups(t.topics); err != nil {
		return nil, err
	}
	t.say("Running test for %v...", t.cfg.Test)
	return t.collect(ctx, lasting(t.cfg.Test))
}
