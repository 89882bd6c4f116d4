package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	readyTimeout  = 2 * time.Minute // for a record to come through every partition
	readyFirst    = time.Second     // patience with the first round of probes; it doubles with every round
	readyMost     = 8 * time.Second
	readyPoll     = time.Second / 20 // between looks at what came through
	readyNoGroups = 30 * time.Second // without consumers, there is nothing to see
)

// ErrNotReady says that records did not come through all partitions.
var ErrNotReady = errors.New("topics are not ready")

// awaitReady sends a record to every partition, again and again, until every group has received those of the last round;
// then the partitions are led by someone, the groups have settled, and no probe is under way any more.
func (t *test) awaitReady(ctx context.Context) error {
	start := time.Now()
	ctx, cancel := context.WithTimeoutCause(ctx, readyTimeout, ErrNotReady)
	defer cancel()
	client, err := kgo.NewClient(append(append([]kgo.Opt{}, t.options.producer...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...)
	if err != nil {
		return fmt.Errorf("make client for probes: %w", err)
	}
	defer client.Close()
	patience := readyFirst
	if len(t.groups) == 0 {
		patience = readyNoGroups
	}
	for ready := false; !ready; patience = min(2*patience, readyMost) {
		if err := t.probe(ctx, client); err != nil {
			return err
		}
		if ready, err = t.awaitProbes(ctx, patience); err != nil {
			return err
		}
	}
	for _, g := range t.groups {
		g.seen.preparing.Store(false)
	}
	t.measureFrom(0)
	t.say("Topics are ready, took %d ms", time.Since(start).Milliseconds())
	return nil
}

// probe sends a record to every partition and waits until all are acknowledged.
func (t *test) probe(ctx context.Context, client *kgo.Client) error {
	now := time.Now()
	for _, g := range t.groups {
		g.seen.prepare(now)
	}
	var records []*kgo.Record
	for _, topic := range t.topics {
		for p := range topic.Partitions {
			records = append(records, &kgo.Record{Topic: topic.Name, Partition: p, Key: []byte("probe"), Value: []byte{1}, Timestamp: now})
		}
	}
	if err := client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("probe topics: %w", cause(ctx, err))
	}
	return nil
}

// awaitProbes waits for a while until every group has received records of every partition.
func (t *test) awaitProbes(ctx context.Context, patience time.Duration) (bool, error) {
	deadline := time.After(patience)
	poll := time.NewTicker(readyPoll)
	defer poll.Stop()
	for {
		missing := t.missing()
		if missing == 0 && len(t.groups) > 0 {
			return true, nil
		}
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("%w: records of %d partitions did not come", cause(ctx, ctx.Err()), missing)
		case <-deadline:
			t.say("Waiting for topics to be ready: no records of %d partitions yet", missing)
			return len(t.groups) == 0, nil
		case <-poll.C:
		}
	}
}

// missing counts, over all groups, the partitions of which they have received nothing.
func (t *test) missing() int {
	all, missing := 0, 0
	for _, topic := range t.topics {
		all += int(topic.Partitions)
	}
	for _, g := range t.groups {
		missing += max(0, all-g.seen.count())
	}
	return missing
}

// cause prefers why the context ended over the error that this led to.
func cause(ctx context.Context, err error) error {
	if c := context.Cause(ctx); c != nil {
		return c
	}
	return err
}
