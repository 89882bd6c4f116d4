package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
)

// kafkago checks segmentio's kafka-go.
type kafkago struct{ cluster }

var kafkagoCodecs = map[string]kafka.Compression{"gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd}

func (k kafkago) client() *kafka.Client {
	return &kafka.Client{Addr: kafka.TCP(k.bootstrap), Timeout: wait}
}

func (k kafkago) partitions(topic string) (int, error) {
	all, err := k.client().Metadata(context.Background(), &kafka.MetadataRequest{})
	if err != nil {
		return 0, err
	}
	for _, t := range all.Topics {
		if t.Name == topic {
			return len(t.Partitions), t.Error
		}
	}
	return 0, nil
}

func (k kafkago) list() error {
	n, err := k.partitions(k.records)
	if err == nil && n != 5 {
		return fmt.Errorf("%d partitions", n)
	}
	return err
}

func (kafkago) regex() error { return errNone }

// onto sends every message to one partition.
func onto(partition int) kafka.BalancerFunc {
	return func(kafka.Message, ...int) int { return partition }
}

func (k kafkago) send(topic string, partition int, all []string, codec string) error {
	w := &kafka.Writer{
		Addr: kafka.TCP(k.bootstrap), Topic: topic, Balancer: onto(partition), RequiredAcks: kafka.RequireAll,
		BatchTimeout: 50 * time.Millisecond, Compression: kafkagoCodecs[codec],
	}
	defer w.Close()
	var messages []kafka.Message
	for _, v := range all {
		messages = append(messages, kafka.Message{Value: []byte(v)})
	}
	return w.WriteMessages(context.Background(), messages...)
}

func (k kafkago) codec(name string, partition int32) error {
	want := values(name, 100)
	if err := k.send(k.records, int(partition), want, name); err != nil {
		return err
	}
	r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{k.bootstrap}, Topic: k.records, Partition: int(partition), MaxWait: 50 * time.Millisecond})
	defer r.Close()
	got, err := readAll(r, len(want))
	if err != nil {
		return err
	}
	return same(want, got)
}

func readAll(r *kafka.Reader, n int) (got []string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	for len(got) < n {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return got, err
		}
		got = append(got, string(m.Value))
	}
	return got, nil
}

// kafkagoMember is a member of a group by kafka-go's lower interface, which shows assignments.
type kafkagoMember struct {
	*kafka.ConsumerGroup
	generations chan *kafka.Generation
	stop        context.CancelFunc
}

func (k kafkago) member(group string) (*kafkagoMember, error) {
	g, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: group, Brokers: []string{k.bootstrap}, Topics: []string{k.shared}, StartOffset: kafka.FirstOffset,
		SessionTimeout: 6 * time.Second, HeartbeatInterval: 300 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &kafkagoMember{ConsumerGroup: g, generations: make(chan *kafka.Generation, 100), stop: cancel}
	go func() {
		for {
			generation, err := g.Next(ctx)
			if err != nil {
				return
			}
			m.generations <- generation
		}
	}()
	return m, nil
}

// await waits for a generation in which the member has n partitions.
func (k kafkago) await(m *kafkagoMember, n int) (*kafka.Generation, error) {
	limit := time.After(wait)
	for {
		select {
		case g := <-m.generations:
			if len(g.Assignments[k.shared]) == n {
				return g, nil
			}
		case <-limit:
			return nil, fmt.Errorf("no generation with %d partitions in %s", n, wait)
		}
	}
}

// drain reads what a generation was assigned and commits it.
func (k kafkago) drain(g *kafka.Generation, each int) (got []string, err error) {
	offsets := map[int]int64{}
	for _, a := range g.Assignments[k.shared] {
		r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{k.bootstrap}, Topic: k.shared, Partition: a.ID, MaxWait: 50 * time.Millisecond})
		part, err := readAll(r, each)
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		got, offsets[a.ID] = append(got, part...), int64(each)
	}
	return got, g.CommitOffsets(map[string]map[int]int64{k.shared: offsets})
}

func (k kafkago) group() error {
	group, want := k.prefix+"-group", values("group", 100)
	a, err := k.member(group)
	if err != nil {
		return err
	}
	defer a.stop()
	if _, err := k.await(a, 4); err != nil {
		return err
	}
	b, err := k.member(group)
	if err != nil {
		return err
	}
	defer b.stop()
	defer b.Close()
	second, err := k.await(b, 2)
	if err != nil {
		return err
	}
	first, err := k.await(a, 2)
	if err != nil {
		return err
	}
	for p := range 4 {
		if err := k.send(k.shared, p, want[p*25:(p+1)*25], ""); err != nil {
			return err
		}
	}
	var got []string
	for _, g := range []*kafka.Generation{first, second} {
		part, err := k.drain(g, 25)
		if err != nil {
			return err
		}
		got = append(got, part...)
	}
	if err := same(sorted(want), sorted(got)); err != nil {
		return err
	}
	if err := a.Close(); err != nil {
		return err
	}
	last, err := k.await(b, 4)
	if err != nil {
		return err
	}
	for _, p := range last.Assignments[k.shared] {
		if p.Offset != 25 {
			return fmt.Errorf("partition %d is committed at %d", p.ID, p.Offset)
		}
	}
	return nil
}

// refusals joins the errors of an answer.
func refusals(all map[string]error) (err error) {
	for _, e := range all {
		err = errors.Join(err, e)
	}
	return err
}

func (k kafkago) admin() error {
	ctx, c, topic := context.Background(), k.client(), k.prefix+"-made"
	created, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{
		Topic: topic, NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: []kafka.ConfigEntry{{ConfigName: "retention.ms", ConfigValue: "3600000"}},
	}}})
	if err != nil {
		return err
	}
	more, err := c.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: 3}}})
	if err != nil {
		return err
	}
	if err := errors.Join(refusals(created.Errors), refusals(more.Errors)); err != nil {
		return err
	}
	three := func() bool { n, err := k.partitions(topic); return n == 3 && err == nil }
	if err := until("three partitions", three, pause); err != nil {
		return err
	}
	if err := k.configs(ctx, c, topic); err != nil {
		return err
	}
	if err := k.acls(ctx, c); err != nil {
		return err
	}
	if err := k.groups(ctx, c, topic); err != nil {
		return err
	}
	deleted, err := c.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	gone := func() bool { n, err := k.partitions(topic); return n == 0 && err == nil }
	return errors.Join(refusals(deleted.Errors), until("the topic is gone", gone, pause))
}

func (k kafkago) configs(ctx context.Context, c *kafka.Client, topic string) error {
	_, err := c.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic,
		Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: "retention.ms", Value: "7200000", ConfigOperation: kafka.ConfigOperationSet}},
	}}})
	if err != nil {
		return err
	}
	described, err := c.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{
		ResourceType: kafka.ResourceTypeTopic, ResourceName: topic, ConfigNames: []string{"retention.ms"},
	}}})
	if err != nil {
		return err
	}
	if entries := described.Resources[0].ConfigEntries; len(entries) != 1 || entries[0].ConfigValue != "7200000" {
		return fmt.Errorf("described %+v", entries)
	}
	return nil
}

// acls: kafka-go sends DescribeAcls with bytes after its last field. A cluster without an authorizer refuses it.
func (k kafkago) acls(ctx context.Context, c *kafka.Client) error {
	answer, err := c.DescribeACLs(ctx, &kafka.DescribeACLsRequest{Filter: kafka.ACLFilter{
		ResourceTypeFilter: kafka.ResourceTypeTopic, ResourcePatternTypeFilter: kafka.PatternTypeAny,
		Operation: kafka.ACLOperationTypeAny, PermissionType: kafka.ACLPermissionTypeAny,
	}})
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, kafka.SecurityDisabled) {
		return err
	}
	if err != nil || !errors.Is(answer.Error, kafka.SecurityDisabled) {
		return fmt.Errorf("DescribeAcls is answered with %+v: %w", answer, err)
	}
	return nil
}

func (k kafkago) groups(ctx context.Context, c *kafka.Client, topic string) error {
	group := k.prefix + "-administered"
	committed, err := c.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: {{Partition: 0, Offset: 0}}},
	})
	if err != nil {
		return err
	}
	if err := committed.Topics[topic][0].Error; err != nil {
		return err
	}
	listed, err := c.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(listed.Groups, func(g kafka.ListGroupsResponseGroup) bool { return g.GroupID == group }) {
		return errors.New("the group is not listed")
	}
	described, err := c.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	deleted, err := c.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	return errors.Join(described.Groups[0].Error, refusals(deleted.Errors))
}

// transactions: kafka-go can begin and end them, but not write in them.
func (kafkago) transactions() error { return errNone }
