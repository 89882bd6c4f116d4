package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	ibm "github.com/IBM/sarama"
)

// sarama checks IBM's sarama.
type sarama struct{ cluster }

var saramaCodecs = map[string]ibm.CompressionCodec{
	"none": ibm.CompressionNone, "gzip": ibm.CompressionGZIP, "snappy": ibm.CompressionSnappy, "lz4": ibm.CompressionLZ4, "zstd": ibm.CompressionZSTD,
}

func (s sarama) config() *ibm.Config {
	c := ibm.NewConfig()
	c.Version = ibm.MaxVersion
	c.Producer.RequiredAcks, c.Producer.Return.Successes = ibm.WaitForAll, true
	c.Producer.Partitioner = ibm.NewManualPartitioner
	c.Consumer.Offsets.Initial, c.Consumer.MaxWaitTime, c.Consumer.IsolationLevel = ibm.OffsetOldest, 50*time.Millisecond, ibm.ReadCommitted
	c.Consumer.Group.Session.Timeout, c.Consumer.Group.Heartbeat.Interval = 6*time.Second, 300*time.Millisecond
	c.Consumer.Offsets.AutoCommit.Enable = false
	return c
}

func (s sarama) list() error {
	a, err := ibm.NewClusterAdmin([]string{s.bootstrap}, s.config())
	if err != nil {
		return err
	}
	defer a.Close()
	topics, err := a.ListTopics()
	if err != nil {
		return err
	}
	if n, m := topics[s.records].NumPartitions, topics[s.shared].NumPartitions; n != 5 || m != 4 {
		return fmt.Errorf("%d and %d partitions", n, m)
	}
	return nil
}

func (sarama) regex() error { return errNone }

func (s sarama) send(c *ibm.Config, topic string, partition int32, all []string) error {
	p, err := ibm.NewSyncProducer([]string{s.bootstrap}, c)
	if err != nil {
		return err
	}
	defer p.Close()
	return p.SendMessages(messages(topic, partition, all))
}

func messages(topic string, partition int32, all []string) (out []*ibm.ProducerMessage) {
	for _, v := range all {
		out = append(out, &ibm.ProducerMessage{Topic: topic, Partition: partition, Value: ibm.StringEncoder(v)})
	}
	return out
}

func (s sarama) codec(name string, partition int32) error {
	c, want := s.config(), values(name, 100)
	c.Producer.Compression, c.Producer.Flush.Frequency = saramaCodecs[name], 50*time.Millisecond
	if partition%2 == 0 {
		c.Producer.Idempotent, c.Net.MaxOpenRequests = true, 1
	}
	if err := s.send(c, s.records, partition, want); err != nil {
		return err
	}
	return s.read(s.records, partition, want)
}

func (s sarama) read(topic string, partition int32, want []string) error {
	c, err := ibm.NewConsumer([]string{s.bootstrap}, s.config())
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.ConsumePartition(topic, partition, ibm.OffsetOldest)
	if err != nil {
		return err
	}
	defer p.Close()
	var got []string
	limit := time.After(wait)
	for len(got) < len(want) {
		select {
		case m := <-p.Messages():
			got = append(got, string(m.Value))
		case <-limit:
			return fmt.Errorf("%d of %d records in %s", len(got), len(want), wait)
		}
	}
	return same(want, got)
}

// saramaMember is a member of a group: it implements ConsumerGroupHandler.
type saramaMember struct {
	mu    sync.Mutex
	owned int
	got   []string

	group ibm.ConsumerGroup
	stop  func()
}

func (s sarama) member(group, topic string) (*saramaMember, error) {
	g, err := ibm.NewConsumerGroup([]string{s.bootstrap}, group, s.config())
	if err != nil {
		return nil, err
	}
	m := &saramaMember{group: g}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			_ = g.Consume(ctx, []string{topic}, m) // the next round says whether it lasts
		}
	})
	m.stop = func() {
		cancel()
		_ = g.Close()
		running.Wait()
	}
	return m, nil
}

func (m *saramaMember) Setup(session ibm.ConsumerGroupSession) error {
	n := 0
	for _, partitions := range session.Claims() {
		n += len(partitions)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned = n
	return nil
}

func (m *saramaMember) Cleanup(session ibm.ConsumerGroupSession) error {
	session.Commit()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.owned = 0
	return nil
}

func (m *saramaMember) ConsumeClaim(session ibm.ConsumerGroupSession, claim ibm.ConsumerGroupClaim) error {
	for msg := range claim.Messages() {
		m.mu.Lock()
		m.got = append(m.got, string(msg.Value))
		m.mu.Unlock()
		session.MarkMessage(msg, "")
	}
	return nil
}

func (m *saramaMember) state() (owned int, got []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.owned, append([]string(nil), m.got...)
}

func (s sarama) group() error {
	group, want := s.prefix+"-group", values("group", 100)
	a, err := s.member(group, s.shared)
	if err != nil {
		return err
	}
	stopped := sync.OnceFunc(a.stop)
	defer stopped()
	has := func(m *saramaMember, n int) bool { owned, _ := m.state(); return owned == n }
	if err := until("one member has all partitions", func() bool { return has(a, 4) }, pause); err != nil {
		return err
	}
	b, err := s.member(group, s.shared)
	if err != nil {
		return err
	}
	defer b.stop()
	if err := until("two members share", func() bool { return has(a, 2) && has(b, 2) }, pause); err != nil {
		return err
	}
	for p := range int32(4) {
		if err := s.send(s.config(), s.shared, p, want[p*25:(p+1)*25]); err != nil {
			return err
		}
	}
	got := func() []string {
		_, first := a.state()
		_, second := b.state()
		return append(first, second...)
	}
	if err := until("all records", func() bool { return len(got()) >= len(want) }, pause); err != nil {
		return err
	}
	if err := same(sorted(want), sorted(got())); err != nil {
		return err
	}
	stopped()
	if err := until("the last member has all partitions", func() bool { return has(b, 4) }, pause); err != nil {
		return err
	}
	return s.committed(group, s.shared, map[int32]int64{0: 25, 1: 25, 2: 25, 3: 25})
}

func (s sarama) committed(group, topic string, want map[int32]int64) error {
	a, err := ibm.NewClusterAdmin([]string{s.bootstrap}, s.config())
	if err != nil {
		return err
	}
	defer a.Close()
	offsets, err := a.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return err
	}
	for p, offset := range want {
		if block := offsets.GetBlock(topic, p); block == nil || block.Offset != offset {
			return fmt.Errorf("partition %d is committed at %+v, want %d", p, block, offset)
		}
	}
	return nil
}

func (s sarama) admin() error {
	a, err := ibm.NewClusterAdmin([]string{s.bootstrap}, s.config())
	if err != nil {
		return err
	}
	defer a.Close()
	topic, first, second := s.prefix+"-made", "3600000", "7200000"
	detail := &ibm.TopicDetail{NumPartitions: 2, ReplicationFactor: 1, ConfigEntries: map[string]*string{"retention.ms": &first}}
	if err := a.CreateTopic(topic, detail, false); err != nil {
		return err
	}
	if err := a.CreatePartitions(topic, 3, nil, false); err != nil {
		return err
	}
	three := func() bool { topics, err := a.ListTopics(); return err == nil && topics[topic].NumPartitions == 3 }
	if err := until("three partitions", three, pause); err != nil {
		return err
	}
	entries := map[string]ibm.IncrementalAlterConfigsEntry{"retention.ms": {Operation: ibm.IncrementalAlterConfigsOperationSet, Value: &second}}
	if err := a.IncrementalAlterConfig(ibm.TopicResource, topic, entries, false); err != nil {
		return err
	}
	configs, err := a.DescribeConfig(ibm.ConfigResource{Type: ibm.TopicResource, Name: topic, ConfigNames: []string{"retention.ms"}})
	if err != nil || len(configs) != 1 || configs[0].Value != second {
		return fmt.Errorf("described %+v: %w", configs, err)
	}
	group := s.prefix + "-administered"
	offsets := map[string]map[int32]ibm.OffsetAndMetadata{topic: {0: {Offset: 0, LeaderEpoch: -1}}}
	if _, err := a.AlterConsumerGroupOffsets(group, offsets, nil); err != nil {
		return err
	}
	groups, err := a.ListConsumerGroups()
	if _, ok := groups[group]; !ok || err != nil {
		return fmt.Errorf("the group is not listed: %w", err)
	}
	if _, err := a.DescribeConsumerGroups([]string{group}); err != nil {
		return err
	}
	if err := a.DeleteConsumerGroup(group); err != nil {
		return err
	}
	if err := a.DeleteTopic(topic); err != nil {
		return err
	}
	gone := func() bool { topics, err := a.ListTopics(); _, ok := topics[topic]; return err == nil && !ok }
	return until("the topic is gone", gone, pause)
}

func (s sarama) transactions() error {
	c, topic, group := s.config(), s.cluster.transactions, s.prefix+"-transactional"
	c.Producer.Idempotent, c.Net.MaxOpenRequests, c.Producer.Transaction.ID = true, 1, s.prefix
	p, err := ibm.NewSyncProducer([]string{s.bootstrap}, c)
	if err != nil {
		return err
	}
	defer p.Close()
	kept := values("kept", 10)
	for _, part := range []struct {
		all []string
		end func() error
	}{{kept, p.CommitTxn}, {values("aborted", 10), p.AbortTxn}, {[]string{"last"}, p.CommitTxn}} {
		if err := p.BeginTxn(); err != nil {
			return err
		}
		if err := p.SendMessages(messages(topic, 0, part.all)); err != nil {
			return err
		}
		offsets := []*ibm.PartitionOffsetMetadata{{Partition: 0, Offset: int64(len(part.all)), LeaderEpoch: -1}}
		if err := p.AddOffsetsToTxn(map[string][]*ibm.PartitionOffsetMetadata{topic: offsets}, group); err != nil {
			return err
		}
		if err := part.end(); err != nil {
			return err
		}
	}
	if err := s.read(topic, 0, append(kept, "last")); err != nil {
		return err
	}
	last := func() bool { return s.committed(group, topic, map[int32]int64{0: 1}) == nil }
	return until("the last offset is committed", last, pause) // Kafka ends transactions afterwards
}
