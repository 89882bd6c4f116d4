package metadata

import (
	"cmp"
	"iter"
	"maps"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/id"
)

// MaxPartitions is the most partitions a topic can have.
const MaxPartitions = 1 << 20

// The object store replicates records. The replication factor is what Metadata shows of a topic, so that tools read back what they set.
const (
	DefaultReplicationFactor = 3
	// MaxReplicationFactor bounds the nodes that an answer names for each partition.
	MaxReplicationFactor = 16
)

// Topic is a topic as it was at some index. It is immutable: a change makes a new one.
type Topic struct {
	ID                id.Topic
	Name              string
	Partitions        int32
	ReplicationFactor int16
	Configs           map[string]string // those set explicitly
	CreatedMs         int64             // command time
}

// topicEntry is a topic with its partitions. A partition without records has no entry.
type topicEntry struct {
	gen        uint64
	topic      *Topic
	partitions btree.Map[int32, *partition]
	// earlier is above every producer id that may have written to an earlier topic of this name, 0 if there was none. Clients number
	// batches by topic name, so such a producer continues its sequence here instead of starting at 0.
	earlier int64
	counts  producerCount // of its partitions
	// deletion is set if the topic was deleted and can be undeleted. Clients do not see such a topic. Only jobs, ends of transactions and
	// the expiry of producers change it.
	deletion *deletion
}

// maxGoneNames bounds the names of deleted topics that are remembered.
const maxGoneNames = 65536

// rememberName records the name of a deleted topic that had records, for ProducerIDExpirationMs.
func (s *machine) rememberName(name string) {
	if _, twice := s.gone.Set(name, s.now); !twice {
		s.load.Other += goneWeight(name)
	}
	if s.gone.Len() > maxGoneNames {
		first, _, _ := s.gone.Min() // an arbitrary name; its producers are then answered Gap in a new topic of the name
		s.forgetName(first)
	}
}

// forgetNames drops names of topics that were deleted ProducerIDExpirationMs ago.
func (s *machine) forgetNames() {
	var old []string
	s.gone.Scan(func(name string, at int64) bool {
		if s.now-at >= ProducerIDExpirationMs {
			old = append(old, name)
		}
		return true
	})
	for _, name := range old {
		s.forgetName(name)
	}
}

func (s *machine) forgetName(name string) {
	s.gone.Delete(name)
	s.load.Other -= goneWeight(name)
}

// empty returns the number of partitions that never had a record.
func (e *topicEntry) empty() int64 { return int64(e.topic.Partitions) - int64(e.partitions.Len()) }

// topicKey is the key of the topics table; ids ascend as the bytes do.
func topicKey(t id.Topic) string { return string(t[:]) }

// liveTopic returns the topic of a key, unless it was deleted.
func (s *machine) liveTopic(key string) (*topicEntry, bool) {
	e, ok := s.topics.Get(key)
	if !ok || e.deletion != nil {
		return nil, false
	}
	return e, true
}

// mutableTopic returns an entry that may be changed in this generation, given the one in the table.
func (s *machine) mutableTopic(e *topicEntry) *topicEntry {
	if e.gen == s.gen {
		return e
	}
	m := &topicEntry{
		gen: s.gen, topic: e.topic, partitions: *e.partitions.Copy(), earlier: e.earlier, counts: e.counts, deletion: e.deletion,
	}
	s.topics.Set(topicKey(e.topic.ID), m)
	return m
}

// replaceTopic puts a changed topic in the place of the old one.
func (s *machine) replaceTopic(e *topicEntry, t *Topic, fx *Effects) {
	s.weighTopic(e.topic, -1)
	s.weighTopic(t, 1)
	s.mutableTopic(e).topic = t
	fx.Topics = append(fx.Topics, t.ID)
}

// newTopic returns the topic that a command creates.
func (s *machine) newTopic(c *CreateTopic) (*Topic, error) {
	if c.Partitions < 1 || c.Partitions > MaxPartitions {
		return nil, ErrPartitionCount
	}
	factor := cmp.Or(c.ReplicationFactor, DefaultReplicationFactor)
	if !validFactor(factor) {
		return nil, ErrReplicationFactor
	}
	if _, ok := s.names.Get(c.Name); ok {
		return nil, ErrTopicExists
	}
	if _, ok := s.topics.Get(topicKey(c.ID)); ok || c.ID == (id.Topic{}) {
		return nil, ErrTopicExists
	}
	if err := admitsConfigs(nil, c.Configs); err != nil {
		return nil, err
	}
	t := &Topic{ID: c.ID, Name: c.Name, Partitions: c.Partitions, ReplicationFactor: factor, Configs: c.Configs, CreatedMs: s.now}
	return t, s.allowsTopic(t)
}

func (s *machine) createTopic(c *CreateTopic, fx *Effects) error {
	t, err := s.newTopic(c)
	if err != nil {
		return err
	}
	t.Configs = maps.Clone(t.Configs)
	e := &topicEntry{gen: s.gen, topic: t}
	if _, ok := s.gone.Get(c.Name); ok {
		e.earlier = s.nextProducerID
	}
	s.topics.Set(topicKey(c.ID), e)
	s.names.Set(c.Name, c.ID)
	s.weighTopic(t, 1)
	s.load.Empty += e.empty()
	fx.Topics = append(fx.Topics, c.ID)
	return nil
}

// deleteTopic deletes a topic. The topic can be undeleted for KeepMs; if that is 0, it leaves the tables at once.
func (s *machine) deleteTopic(c *DeleteTopic, fx *Effects) error {
	e, ok := s.liveTopic(topicKey(c.ID))
	if !ok {
		return ErrUnknownTopic
	}
	s.names.Delete(e.topic.Name)
	if e.partitions.Len() > 0 {
		s.rememberName(e.topic.Name)
		s.noteReused(e.topic.Name)
	}
	if c.KeepMs > 0 {
		s.keepDeleted(e, c.KeepMs)
	} else {
		s.removeTopic(e)
	}
	s.endCleaningsOf(c.ID)
	fx.Topics = append(fx.Topics, c.ID)
	return nil
}

// createPartitions adds partitions to a topic. Existing partitions may move to other agents, so it raises the membership version, which
// clients see as the leader epoch.
func (s *machine) createPartitions(c *CreatePartitions, fx *Effects) error {
	e, err := s.topicToGrow(c)
	if err != nil {
		return err
	}
	t := *e.topic
	s.load.Empty += int64(c.Count - t.Partitions)
	t.Partitions = c.Count
	s.replaceTopic(e, &t, fx)
	s.membershipChanged(fx)
	return nil
}

// topicToGrow returns the topic to which a command adds partitions.
func (s *machine) topicToGrow(c *CreatePartitions) (*topicEntry, error) {
	e, ok := s.liveTopic(topicKey(c.ID))
	if !ok {
		return nil, ErrUnknownTopic
	}
	if c.Count <= e.topic.Partitions || c.Count > MaxPartitions {
		return nil, ErrPartitionCount
	}
	return e, s.allows(LimitPartitions, int64(c.Count-e.topic.Partitions))
}

// validFactor reports whether a topic can have a replication factor.
func validFactor(factor int16) bool { return factor >= 1 && factor <= MaxReplicationFactor }

func (s *machine) setReplicationFactor(c *SetReplicationFactor, fx *Effects) error {
	e, ok := s.liveTopic(topicKey(c.ID))
	if !ok {
		return ErrUnknownTopic
	}
	if !validFactor(c.Factor) {
		return ErrReplicationFactor
	}
	t := *e.topic
	t.ReplicationFactor = c.Factor
	s.replaceTopic(e, &t, fx)
	return nil
}

// configKey is the key of the configs table.
func configKey(r ConfigResource, name string) string { return string([]byte{byte(r)}) + name }

func (s *machine) setConfigs(c *SetConfigs, fx *Effects) error {
	old, changed, err := s.newConfigs(c)
	if err != nil {
		return err
	}
	if c.Resource == ConfigTopic {
		e, _ := s.liveTopic(topicKey(c.Topic))
		t := *e.topic
		before, _ := s.CleanupConfigs(c.Topic)
		t.Configs = changed
		s.replaceTopic(e, &t, fx)
		if after, _ := s.CleanupConfigs(c.Topic); after != before {
			s.endCleaningsOf(c.Topic)
		}
		return nil
	}
	key := configKey(c.Resource, c.Name)
	s.weighResource(c.Name, old, -1)
	s.weighResource(c.Name, changed, 1)
	if len(changed) > 0 {
		s.configs.Set(key, changed)
	} else {
		s.configs.Delete(key)
	}
	if c.Resource == ConfigBroker && c.Name == "" {
		s.endCleaningsUnder(old, changed)
	}
	fx.Configs = true
	return nil
}

// newConfigs returns the configs of a command's resource before and after the command.
func (s *machine) newConfigs(c *SetConfigs) (old, changed map[string]string, err error) {
	name := c.Name
	if c.Resource == ConfigTopic {
		e, ok := s.liveTopic(topicKey(c.Topic))
		if !ok {
			return nil, nil, ErrUnknownTopic
		}
		old, name = e.topic.Configs, ""
	} else {
		old, _ = s.configs.Get(configKey(c.Resource, c.Name))
	}
	changed = changedConfigs(old, c)
	if err := admitsConfigs(old, changed); err != nil {
		return nil, nil, err
	}
	return old, changed, s.allows(LimitTextBytes, resourceText(name, changed)-resourceText(name, old))
}

func changedConfigs(old map[string]string, c *SetConfigs) map[string]string {
	m := make(map[string]string, len(old)+len(c.Set))
	maps.Copy(m, old)
	maps.Copy(m, c.Set)
	for _, k := range c.Delete {
		delete(m, k)
	}
	return m
}

// Topic gives the topic of an id.
func (s *machine) Topic(t id.Topic) (*Topic, bool) {
	e, ok := s.liveTopic(topicKey(t))
	if !ok {
		return nil, false
	}
	return e.topic, true
}

// TopicByName gives the topic of a name.
func (s *machine) TopicByName(name string) (*Topic, bool) {
	t, ok := s.names.Get(name)
	if !ok {
		return nil, false
	}
	return s.Topic(t)
}

// Topics gives all topics in name order.
func (s *machine) Topics() iter.Seq[*Topic] {
	return func(yield func(*Topic) bool) {
		s.names.Scan(func(_ string, t id.Topic) bool {
			e, _ := s.topics.Get(topicKey(t))
			return yield(e.topic)
		})
	}
}

// Configs gives the configs set explicitly on a resource: a topic (name = topic name), a broker (name = node id, or
// "" for the cluster default), a group or a client-metrics subscription. The map must not be changed; nil if none.
func (s *machine) Configs(resource ConfigResource, name string) map[string]string {
	if resource == ConfigTopic {
		if t, ok := s.TopicByName(name); ok {
			return t.Configs
		}
		return nil
	}
	m, _ := s.configs.Get(configKey(resource, name))
	return m
}
