package group

import (
	"iter"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/controlplane/group/consumer"
	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// catalogue is the topics there are as of one log index. It is never changed once published, so that a machine sees one
// index during a call without holding up commits. It implements consumer.Catalogue.
type catalogue struct {
	names   btree.Map[string, topicInfo]
	ids     btree.Map[string, string] // names by the 16 bytes of the id
	version uint64                    // counts changes
	resolve *patterns
}

type topicInfo struct {
	id         id.Topic
	partitions int32
}

// newCatalogue reads all topics.
func newCatalogue(s *metadata.State, resolve *patterns) *catalogue {
	c := &catalogue{resolve: resolve}
	for t := range s.Topics() {
		c.put(t)
	}
	c.setInternal(s)
	return c
}

// setInternal adds the internal topics that clients see, removes the others, and reports whether that changed anything.
func (c *catalogue) setInternal(s *metadata.State) (changed bool) {
	for t, shown := range map[*internaltopic.Topic]bool{&internaltopic.Offsets: s.HasGroups(), &internaltopic.Transactions: s.HasTransactions()} {
		if other, taken := c.names.Get(t.Name); shown && (!taken || other.id == t.ID) {
			changed = c.put(&metadata.Topic{ID: t.ID, Name: t.Name, Partitions: internaltopic.Partitions}) || changed
		} else {
			changed = c.drop(t.ID) || changed
		}
	}
	return changed
}

// put notes a topic and tells whether that changed anything.
func (c *catalogue) put(t *metadata.Topic) bool {
	info := topicInfo{id: t.ID, partitions: t.Partitions}
	if old, ok := c.names.Get(t.Name); ok && old == info {
		return false
	}
	c.names.Set(t.Name, info)
	c.ids.Set(string(t.ID[:]), t.Name)
	return true
}

// drop forgets a topic that was deleted and tells whether that changed anything.
func (c *catalogue) drop(topic id.Topic) bool {
	name, ok := c.ids.Delete(string(topic[:]))
	if !ok {
		return false
	}
	if info, ok := c.names.Get(name); ok && info.id == topic { // else a new topic has the name already
		c.names.Delete(name)
	}
	return true
}

// changed returns the catalogue after topics were created, changed or deleted, or internal ones appeared or went. Without a change it
// returns the receiver, which stays as it is.
func (c *catalogue) changed(s *metadata.State, topics []id.Topic) *catalogue {
	next := &catalogue{names: *c.names.Copy(), ids: *c.ids.Copy(), version: c.version + 1, resolve: c.resolve}
	any := false
	for _, topic := range topics {
		if t, ok := s.Topic(topic); ok {
			any = next.put(t) || any
		} else {
			any = next.drop(topic) || any
		}
	}
	any = next.setInternal(s) || any
	if !any {
		return c
	}
	return next
}

// Topic gives a topic's id and partition count.
func (c *catalogue) Topic(name string) (topic id.Topic, partitions int32, ok bool) {
	info, ok := c.names.Get(name)
	return info.id, info.partitions, ok
}

// TopicName is the name of a topic that exists.
func (c *catalogue) TopicName(topic id.Topic) (string, bool) { return c.ids.Get(string(topic[:])) }

// TopicNames gives all topics' names in their order.
func (c *catalogue) TopicNames() iter.Seq[string] {
	return func(yield func(string) bool) {
		c.names.Scan(func(name string, _ topicInfo) bool { return yield(name) })
	}
}

// Matching returns the topics that an expression matches, as far as known.
func (c *catalogue) Matching(expression string) consumer.Matches {
	return c.resolve.matching(expression, c)
}

// Version differs whenever a topic came, went or got partitions since.
func (c *catalogue) Version() uint64 { return c.version }

// partition gives a partition of a topic by name; false if there is none.
func (c *catalogue) partition(topic string, n int32) (id.TopicPartition, bool) {
	info, ok := c.names.Get(topic)
	return id.TopicPartition{Topic: info.id, Partition: n}, ok && n >= 0 && n < info.partitions
}
