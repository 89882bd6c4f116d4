package load

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Topic is a topic to make.
type Topic struct {
	Name       string `json:"name"`
	Partitions int32  `json:"partitions"`
}

// topicsAtOnce bounds the topics of one request.
const topicsAtOnce = 500

// CreateTopics makes topics; those that exist already are left as they are. Progress, if given, is told how many are
// done.
func CreateTopics(
	ctx context.Context, opts []kgo.Opt, topics []Topic, replication int16, configs map[string]string, progress func(done int),
) error {
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return fmt.Errorf("make admin client: %w", err)
	}
	defer client.Close()
	values := make(map[string]*string, len(configs))
	for name, value := range configs {
		values[name] = &value
	}
	done := 0
	for batch := range slices.Chunk(topics, topicsAtOnce) {
		byPartitions := map[int32][]string{}
		for _, t := range batch {
			byPartitions[t.Partitions] = append(byPartitions[t.Partitions], t.Name)
		}
		for _, partitions := range slices.Sorted(maps.Keys(byPartitions)) {
			if err := create(ctx, kadm.NewClient(client), partitions, replication, values, byPartitions[partitions]); err != nil {
				return err
			}
			done += len(byPartitions[partitions])
			if progress != nil {
				progress(done)
			}
		}
	}
	return nil
}

func create(
	ctx context.Context, admin *kadm.Client, partitions int32, replication int16, values map[string]*string, names []string,
) error {
	answers, err := admin.CreateTopics(ctx, partitions, replication, values, names...)
	if err != nil {
		return fmt.Errorf("create topics: %w", err)
	}
	var errs []error
	for _, a := range answers.Sorted() {
		if a.Err != nil && !errors.Is(a.Err, kerr.TopicAlreadyExists) {
			errs = append(errs, fmt.Errorf("create topic %s: %w %s", a.Topic, a.Err, a.ErrMessage))
		}
	}
	return errors.Join(errs...)
}

// DeleteTopics removes the topics whose names match, and gives how many there were.
func DeleteTopics(ctx context.Context, opts []kgo.Opt, matches func(name string) bool) (int, error) {
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return 0, fmt.Errorf("make admin client: %w", err)
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	all, err := admin.ListTopics(ctx)
	if err != nil {
		return 0, fmt.Errorf("list topics: %w", err)
	}
	names := slices.DeleteFunc(all.Names(), func(name string) bool { return !matches(name) })
	for batch := range slices.Chunk(names, topicsAtOnce) {
		answers, err := admin.DeleteTopics(ctx, batch...)
		if err != nil {
			return 0, fmt.Errorf("delete topics: %w", err)
		}
		if err := answers.Error(); err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
			return 0, fmt.Errorf("delete topics: %w", err)
		}
	}
	return len(names), nil
}
