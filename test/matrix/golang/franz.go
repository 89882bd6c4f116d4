package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franz checks franz-go.
type franz struct{ cluster }

var franzCodecs = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(),
	"zstd": kgo.ZstdCompression(),
}

func (f franz) client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(f.bootstrap), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(6 * time.Second), kgo.HeartbeatInterval(300 * time.Millisecond), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxWait(50 * time.Millisecond),
	}, options...)...)
}

// member is a client and what it has read and been assigned.
type member struct {
	*kgo.Client
	got        []string
	partitions map[string][]int32
}

func (f franz) member(options ...kgo.Opt) (*member, error) {
	m := &member{partitions: map[string][]int32{}}
	lose := func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
		for topic := range lost {
			delete(m.partitions, topic)
		}
	}
	var err error
	m.Client, err = f.client(append(options, kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(), kgo.Balancers(kgo.RangeBalancer()),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			for topic, partitions := range assigned {
				m.partitions[topic] = partitions
			}
		}), kgo.OnPartitionsRevoked(lose), kgo.OnPartitionsLost(lose))...)
	return m, err
}

func (m *member) take() error {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	fetches := m.PollFetches(ctx)
	fetches.EachRecord(func(r *kgo.Record) { m.got = append(m.got, string(r.Value)) })
	m.AllowRebalance()
	if err := fetches.Err0(); err != nil && ctx.Err() == nil {
		return err
	}
	return nil
}

// owned is the number of partitions the member has. No rebalance runs meanwhile.
func (m *member) owned() (n int) {
	for _, partitions := range m.partitions {
		n += len(partitions)
	}
	return n
}

func (f franz) produce(topic string, partition int32, all []string, options ...kgo.Opt) error {
	c, err := f.client(options...)
	if err != nil {
		return err
	}
	defer c.Close()
	return send(c, topic, partition, all)
}

func send(c *kgo.Client, topic string, partition int32, all []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	var records []*kgo.Record
	for _, v := range all {
		records = append(records, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)})
	}
	return c.ProduceSync(ctx, records...).FirstErr()
}

func (f franz) list() error {
	c, err := f.client()
	if err != nil {
		return err
	}
	defer c.Close()
	topics, err := kadm.NewClient(c).ListTopics(context.Background())
	if err != nil {
		return err
	}
	if n, m := len(topics[f.records].Partitions), len(topics[f.shared].Partitions); n != 5 || m != 4 {
		return fmt.Errorf("%d and %d partitions", n, m)
	}
	return nil
}

func (f franz) regex() error {
	for _, topic := range f.cluster.regex {
		if err := f.produce(topic, 0, []string{topic}); err != nil {
			return err
		}
	}
	m, err := f.member(kgo.ConsumerGroup(f.prefix+"-regex"), kgo.ConsumeRegex(), kgo.ConsumeTopics("^"+f.prefix+"-regex-.*"))
	if err != nil {
		return err
	}
	defer m.Close()
	if err := until("a record of each topic", func() bool { return len(m.got) >= 2 }, m.take); err != nil {
		return err
	}
	return same(f.cluster.regex, sorted(m.got))
}

func (f franz) codec(name string, partition int32) error {
	want := values(name, 100)
	options := []kgo.Opt{kgo.ProducerBatchCompression(franzCodecs[name]), kgo.ProducerLinger(50 * time.Millisecond)}
	if partition%2 == 1 {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	if err := f.produce(f.records, partition, want, options...); err != nil {
		return err
	}
	return f.read(f.records, partition, want)
}

// read reads a partition from its beginning.
func (f franz) read(topic string, partition int32, want []string) error {
	at := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}
	m := new(member)
	var err error
	if m.Client, err = f.client(kgo.ConsumePartitions(at)); err != nil {
		return err
	}
	defer m.Close()
	if err := until("all records", func() bool { return len(m.got) >= len(want) }, m.take); err != nil {
		return err
	}
	return same(want, m.got)
}

func (f franz) group() error {
	want, options := values("group", 100), []kgo.Opt{kgo.ConsumerGroup(f.prefix + "-group"), kgo.ConsumeTopics(f.shared)}
	a, err := f.member(options...)
	if err != nil {
		return err
	}
	defer a.Close()
	if err := until("one member has all partitions", func() bool { return a.owned() == 4 }, a.take); err != nil {
		return err
	}
	b, err := f.member(options...)
	if err != nil {
		return err
	}
	defer b.Close()
	both := func() error {
		if err := a.take(); err != nil {
			return err
		}
		return b.take()
	}
	if err := until("two members share", func() bool { return a.owned() == 2 && b.owned() == 2 }, both); err != nil {
		return err
	}
	for p := range int32(4) {
		if err := f.produce(f.shared, p, want[p*25:(p+1)*25]); err != nil {
			return err
		}
	}
	if err := until("all records", func() bool { return len(a.got)+len(b.got) >= len(want) }, both); err != nil {
		return err
	}
	if err := same(sorted(want), sorted(append(a.got, b.got...))); err != nil {
		return err
	}
	ctx := context.Background()
	for _, m := range []*member{a, b} {
		if err := m.CommitUncommittedOffsets(ctx); err != nil {
			return err
		}
	}
	a.Close()
	if err := until("the last member has all partitions", func() bool { return b.owned() == 4 }, b.take); err != nil {
		return err
	}
	offsets, err := kadm.NewClient(b.Client).FetchOffsets(ctx, f.prefix+"-group")
	if err != nil {
		return err
	}
	for p := range int32(4) {
		if o, ok := offsets.Lookup(f.shared, p); !ok || o.At != 25 {
			return fmt.Errorf("partition %d is committed at %d", p, o.At)
		}
	}
	return nil
}

func (f franz) admin() error {
	c, err := f.client()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, a, topic, group := context.Background(), kadm.NewClient(c), f.prefix+"-made", f.prefix+"-administered"
	first, second := "3600000", "7200000"
	if _, err := a.CreateTopic(ctx, 2, 1, map[string]*string{"retention.ms": &first}, topic); err != nil {
		return err
	}
	if _, err := a.UpdatePartitions(ctx, 3, topic); err != nil {
		return err
	}
	three := func() bool { topics, _ := a.ListTopics(ctx, topic); return len(topics[topic].Partitions) == 3 }
	if err := until("three partitions", three, pause); err != nil {
		return err
	}
	if _, err := a.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &second}}, topic); err != nil {
		return err
	}
	configs, err := a.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return err
	}
	for _, config := range configs[0].Configs {
		if config.Key == "retention.ms" && config.MaybeValue() != second {
			return fmt.Errorf("retention.ms is %s", config.MaybeValue())
		}
	}
	offsets := make(kadm.Offsets)
	offsets.Add(kadm.Offset{Topic: topic, At: 0, LeaderEpoch: -1})
	if err := a.CommitAllOffsets(ctx, group, offsets); err != nil {
		return err
	}
	groups, err := a.ListGroups(ctx)
	if err != nil || groups[group].Group != group {
		return fmt.Errorf("the group is not listed: %w", err)
	}
	if _, err := a.DescribeGroups(ctx, group); err != nil {
		return err
	}
	if _, err := a.DeleteGroup(ctx, group); err != nil {
		return err
	}
	if _, err := a.DeleteTopic(ctx, topic); err != nil {
		return err
	}
	gone := func() bool { topics, err := a.ListTopics(ctx); return err == nil && !topics.Has(topic) }
	return until("the topic is gone", gone, pause)
}

func (f franz) transactions() error {
	c, err := f.client(kgo.TransactionalID(f.prefix))
	if err != nil {
		return err
	}
	defer c.Close()
	kept := values("kept", 10)
	for _, part := range []struct {
		all []string
		end kgo.TransactionEndTry
	}{{kept, kgo.TryCommit}, {values("aborted", 10), kgo.TryAbort}, {[]string{"last"}, kgo.TryCommit}} {
		if err := c.BeginTransaction(); err != nil {
			return err
		}
		if err := send(c, f.cluster.transactions, 0, part.all); err != nil {
			return err
		}
		if err := c.EndTransaction(context.Background(), part.end); err != nil {
			return err
		}
	}
	return f.read(f.cluster.transactions, 0, append(kept, "last"))
}
