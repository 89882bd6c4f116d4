package cli

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// listedTopic is a topic in a list.
type listedTopic struct {
	Topic      string `json:"topic"`
	Internal   bool   `json:"internal"`
	Partitions int    `json:"partitions"`
	stored
}

// ListTopics writes the topics' names, partition counts, sizes and ages.
func ListTopics(ctx context.Context, c TopicConfig, s Streams) error {
	return c.once(ctx, s, func(ctx context.Context, admin *kadm.Client) error { return c.list(ctx, admin, s) })
}

func (c TopicConfig) list(ctx context.Context, admin *kadm.Client, s Streams) error {
	list := admin.ListTopics
	if c.Internal {
		list = admin.ListTopicsWithInternal
	}
	topics, err := list(ctx)
	if err != nil {
		return failed("list topics", err)
	}
	facts := storedOf(ctx, admin, topics.TopicsSet(), s.Err)
	listed := []listedTopic{}
	for _, t := range topics.Sorted() {
		sum := sumOf(slices.Collect(maps.Values(facts[t.Topic])))
		listed = append(listed, listedTopic{Topic: t.Topic, Internal: t.IsInternal, Partitions: len(t.Partitions), stored: sum})
	}
	if s.json() {
		return s.WriteJSON(listed)
	}
	w := tabwriter.NewWriter(s.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TOPIC\tPARTITIONS\tSIZE\tNEWEST RECORD")
	now := time.Now()
	for _, t := range listed {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", t.Topic, t.Partitions, t.size(), t.age(now))
	}
	return w.Flush()
}

// describedTopic is a topic with its configs and partitions.
type describedTopic struct {
	Topic string `json:"topic"`
	ID    string `json:"id"` // as Kafka's tools write it
	// Replicas is the number of nodes that Metadata names for each partition.
	Replicas int `json:"replicas"`
	stored
	Configs    []topicConfigValue   `json:"configs"`
	Partitions []describedPartition `json:"partitions"`
}

type topicConfigValue struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default bool   `json:"default"` // not set at the topic
}

type describedPartition struct {
	Partition   int32 `json:"partition"`
	Leader      int32 `json:"leader"`
	FirstOffset int64 `json:"first_offset"`
	EndOffset   int64 `json:"end_offset"`
	Records     int64 `json:"records_at_most"` // fewer after compaction, and with transactions
	stored
}

// DescribeTopics writes the topics' configs, and their partitions with offsets.
func DescribeTopics(ctx context.Context, c TopicConfig, s Streams) error {
	return c.once(ctx, s, func(ctx context.Context, admin *kadm.Client) error { return c.describe(ctx, admin, s) })
}

func (c TopicConfig) describe(ctx context.Context, admin *kadm.Client, s Streams) error {
	meta, err := admin.Metadata(ctx, c.Topics...)
	if err != nil {
		return failed("read metadata", err)
	}
	topics := []describedTopic{}
	var faults []error
	for _, t := range meta.Topics.Sorted() {
		if t.Err != nil {
			faults = append(faults, explain(t.Topic, t.Err))
			continue
		}
		d, err := c.describeTopic(ctx, admin, t, s.Err)
		if faults = append(faults, err); d != nil {
			topics = append(topics, *d)
		}
	}
	if s.json() {
		faults = append(faults, s.WriteJSON(topics))
	} else {
		for i := range topics {
			faults = append(faults, topics[i].write(s.Out))
		}
	}
	return errors.Join(faults...)
}

// describeTopic returns nil if configs or offsets cannot be asked for. If a part of an answer is an error, it returns the other parts too.
func (c TopicConfig) describeTopic(ctx context.Context, admin *kadm.Client, t kadm.TopicDetail, warn io.Writer) (*describedTopic, error) {
	d := &describedTopic{
		Topic: t.Topic, ID: base64.RawURLEncoding.EncodeToString(t.ID[:]), Configs: []topicConfigValue{}, Partitions: []describedPartition{},
	}
	configs, err := admin.DescribeTopicConfigs(ctx, t.Topic)
	if err != nil {
		return nil, failed("describe configs", err)
	}
	starts, ends, err := c.bounds(ctx, admin, t.Topic)
	if err != nil {
		return nil, err
	}
	facts := storedOf(ctx, admin, kadm.TopicDetails{t.Topic: t}.TopicsSet(), warn)[t.Topic]
	d.stored = sumOf(slices.Collect(maps.Values(facts)))
	var faults []error
	for _, r := range configs {
		faults = append(faults, r.Err)
		slices.SortFunc(r.Configs, func(a, b kadm.Config) int { return cmp.Compare(a.Key, b.Key) })
		for _, cfg := range r.Configs {
			isDefault := cfg.Source != kmsg.ConfigSourceDynamicTopicConfig
			if c.AllConfigs || !isDefault {
				d.Configs = append(d.Configs, topicConfigValue{cfg.Key, cfg.MaybeValue(), isDefault})
			}
		}
	}
	for _, p := range t.Partitions.Sorted() {
		d.Replicas = max(d.Replicas, len(p.Replicas))
		start, _ := starts.Lookup(t.Topic, p.Partition)
		end, _ := ends.Lookup(t.Topic, p.Partition)
		faults = append(faults, explain(t.Topic, cmp.Or(start.Err, end.Err)))
		d.Partitions = append(d.Partitions, describedPartition{
			Partition: p.Partition, Leader: p.Leader, FirstOffset: start.Offset, EndOffset: end.Offset, Records: end.Offset - start.Offset,
			stored: facts[p.Partition],
		})
	}
	return d, errors.Join(faults...)
}

// bounds returns the first and the end offsets of the topics' partitions.
func (c ClientConfig) bounds(ctx context.Context, admin *kadm.Client, topics ...string) (starts, ends kadm.ListedOffsets, err error) {
	err = c.patiently(ctx, func(ctx context.Context) (err error) {
		if starts, err = admin.ListStartOffsets(ctx, topics...); err != nil {
			return failed("list start offsets", err)
		}
		if ends, err = admin.ListEndOffsets(ctx, topics...); err != nil {
			return failed("list end offsets", err)
		}
		return nil
	})
	return starts, ends, err
}

func (d *describedTopic) write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	now := time.Now()
	fmt.Fprintf(w, "topic %s, %s, %s, %s, newest record: %s\n", d.Topic, count(int64(len(d.Partitions)), "partition"), count(int64(d.Replicas), "replica"), d.size(), d.age(now))
	for _, c := range d.Configs {
		fmt.Fprintf(w, "config %s=%s\n", c.Name, c.Value)
	}
	fmt.Fprintln(w, "partition\tleader\tfirst offset\tend offset\trecords (at most)\tsize\tnewest record")
	for _, p := range d.Partitions {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%s\t%s\n", p.Partition, p.Leader, p.FirstOffset, p.EndOffset, p.Records, p.size(), p.age(now))
	}
	return w.Flush()
}
