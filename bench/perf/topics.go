package perf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/freshet-io/freshet/bench/load"
)

// commonPrefix begins the names of all topics of the tool, so that --reset finds them.
const commonPrefix = "__automq_perf_"

// maxPartitionsAtOnce bounds a request that creates topics, as Kafka's controller does.
const maxPartitionsAtOnce = 10_000

// replication is what the tool asks for; services on object storage ignore it.
const replication = 1

func (t *test) topicName(i int) string {
	return fmt.Sprintf("%s%s_%04d_%07d", commonPrefix, t.cfg.TopicPrefix, t.cfg.Partitions, i)
}

// prepareTopics finds or makes the topics of the test.
func (t *test) prepareTopics(ctx context.Context) error {
	if t.cfg.Reset {
		start := time.Now()
		n, err := load.DeleteTopics(ctx, t.options.admin, func(name string) bool { return strings.HasPrefix(name, commonPrefix) })
		if err != nil {
			return err
		}
		t.say("Deleted all test topics (%d in total), took %d ms", n, time.Since(start).Milliseconds())
	}
	switch {
	case t.cfg.CatchupPrefix != "":
		if err := t.findTopics(ctx, t.cfg.CatchupPrefix); err != nil {
			return err
		}
		if len(t.topics) == 0 {
			return fmt.Errorf("no topics begin with %s", commonPrefix+t.cfg.CatchupPrefix)
		}
		return nil
	case t.cfg.ReuseTopics:
		if err := t.findTopics(ctx, t.cfg.TopicPrefix); err != nil || len(t.topics) > 0 {
			return err
		}
		t.say("No topics begin with %s: new ones", commonPrefix+t.cfg.TopicPrefix)
	}
	return t.createTopics(ctx)
}

func (t *test) findTopics(ctx context.Context, prefix string) error {
	found, err := t.admin.ListTopics(ctx)
	if err != nil {
		return fmt.Errorf("list topics: %w", err)
	}
	for _, d := range found.Sorted() {
		if strings.HasPrefix(d.Topic, commonPrefix+prefix) {
			t.topics = append(t.topics, load.Topic{Name: d.Topic, Partitions: int32(len(d.Partitions))})
		}
	}
	t.say("Found %d topics that begin with %s", len(t.topics), commonPrefix+prefix)
	return nil
}

func (t *test) createTopics(ctx context.Context) error {
	start := time.Now()
	for i := range t.cfg.Topics {
		t.topics = append(t.topics, load.Topic{Name: t.topicName(i), Partitions: int32(t.cfg.Partitions)})
	}
	t.created = t.cfg.DeleteTopics
	for batch := range slices.Chunk(t.topics, max(1, maxPartitionsAtOnce/t.cfg.Partitions)) {
		if err := load.CreateTopics(ctx, t.options.admin, batch, replication, t.cfg.TopicConfigs, nil); err != nil {
			return err
		}
	}
	t.say("Created %d topics, took %d ms", len(t.topics), time.Since(start).Milliseconds())
	return nil
}

// cleanupTimeout bounds the removal of topics and groups after a test, which also happens when the test was interrupted.
const cleanupTimeout = time.Minute

// removeTopics deletes what createTopics made, and the groups that read it.
func (t *test) removeTopics(ctx context.Context) error {
	if !t.created {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	mine, groups := map[string]bool{}, []string(nil)
	for _, topic := range t.topics {
		mine[topic.Name] = true
		for g := range t.cfg.Groups {
			groups = append(groups, groupName(topic.Name, g))
		}
	}
	_, err := load.DeleteTopics(ctx, t.options.admin, func(name string) bool { return mine[name] })
	return errors.Join(err, load.DeleteGroups(ctx, t.options.admin, groups))
}

// newAdmin makes the client for what tests ask of the cluster besides records.
func newAdmin(opts []kgo.Opt) (*kadm.Client, error) {
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("make admin client: %w", err)
	}
	return kadm.NewClient(client), nil
}
