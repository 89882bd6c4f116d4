package metadata

import (
	"encoding/binary"
	"iter"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// maxDeletedTopics is the maximum number of deleted topics that can be undeleted. One more purges the oldest.
const maxDeletedTopics = 10_000

// deletion describes a deleted topic that can be undeleted. It is immutable.
type deletion struct {
	order uint64 // its place in the log (see machine.order)
	at    int64  // command time of it
	keep  int64  // ms after which the topic is to be purged, above 0
	// reused is set once another topic of the name, with records, was deleted after this one.
	reused bool
}

func (d *deletion) index() uint64 { return d.order >> orderBits }

// appendDeletion appends how long the deletion is kept, 0 for none, then its order, its time, and whether the name was reused.
func appendDeletion(b []byte, d *deletion) []byte {
	if d == nil {
		return binary.AppendVarint(b, 0)
	}
	b = binary.AppendUvarint(binary.AppendVarint(b, d.keep), d.order)
	return wire.AppendBool(binary.AppendVarint(b, d.at), d.reused)
}

func readDeletion(w *wire.Reader) *deletion {
	d := &deletion{keep: w.Varint()}
	if d.keep == 0 {
		return nil
	}
	if d.keep < 0 {
		w.Fail("deletion kept for %d ms", d.keep)
	}
	d.order, d.at, d.reused = w.Uvarint(), w.Varint(), w.Bool()
	return d
}

// keepDeleted marks a topic as deleted and keeps it for keepMs. Above maxDeletedTopics it purges the oldest deleted topic.
func (s *machine) keepDeleted(e *topicEntry, keepMs int64) {
	d := &deletion{order: s.order(), at: s.now, keep: keepMs}
	s.mutableTopic(e).deletion = d
	s.deletions.Set(d.order, e.topic.ID)
	s.deletedNames.Set(e.topic.Name, s.deletedOf(e.topic.Name)+1)
	if s.deletions.Len() > maxDeletedTopics {
		_, first, _ := s.deletions.Min()
		oldest, _ := s.topics.Get(topicKey(first))
		s.purge(oldest)
	}
}

// deletedOf returns the number of deleted topics of a name that can be undeleted.
func (s *machine) deletedOf(name string) int {
	n, _ := s.deletedNames.Get(name)
	return n
}

// forgetDeletion takes a deletion out of the derived tables.
func (s *machine) forgetDeletion(e *topicEntry) {
	s.deletions.Delete(e.deletion.order)
	if left := s.deletedOf(e.topic.Name) - 1; left > 0 {
		s.deletedNames.Set(e.topic.Name, left)
	} else {
		s.deletedNames.Delete(e.topic.Name)
	}
}

// noteReused marks the deleted topics of a name, after another topic of the name with records was deleted. It costs the number
// of deleted topics if there is one of the name.
func (s *machine) noteReused(name string) {
	if s.deletedOf(name) == 0 {
		return
	}
	var of []*topicEntry
	s.deletions.Scan(func(_ uint64, n id.Topic) bool {
		if e, _ := s.topics.Get(topicKey(n)); e.topic.Name == name && !e.deletion.reused {
			of = append(of, e)
		}
		return true
	})
	for _, e := range of {
		d := *e.deletion
		d.reused = true
		s.mutableTopic(e).deletion = &d
	}
}

// purge removes a deleted topic, which then cannot be undeleted.
func (s *machine) purge(e *topicEntry) {
	s.forgetDeletion(e)
	s.removeTopic(e)
}

// removeTopic takes a topic out of the table. Its extents leave their bundles step by step (see cleanupQueue).
func (s *machine) removeTopic(e *topicEntry) {
	s.topics.Delete(topicKey(e.topic.ID))
	s.counts.add(e.counts, -1)
	s.load.Partitions -= int64(e.partitions.Len())
	s.load.Empty -= e.empty()
	s.weighTopic(e.topic, -1)
	s.cleanup.push(cleanupItem{partitions: e.partitions.Copy()})
	s.cleanup.bytes += e.counts.partitionBytes(e.partitions.Len())
}

func (s *machine) purgeTopics(c *PurgeTopics, _ *Effects) Result {
	var n int64
	for _, t := range c.Topics {
		if e, ok := s.topics.Get(topicKey(t.ID)); ok && e.deletion != nil && e.deletion.index() == t.Index {
			s.purge(e)
			n++
		}
	}
	return Result{Value: n}
}

// undeleteTopic restores a deleted topic. It forgets the topic's producers if the name changes, or if another topic had the name
// meanwhile. Clients number batches by topic name, so their next batches would look like duplicates or gaps.
func (s *machine) undeleteTopic(c *UndeleteTopic, fx *Effects) error {
	e, ok := s.topics.Get(topicKey(c.ID))
	if !ok || e.deletion == nil {
		return ErrUnknownTopic
	}
	d, name := e.deletion, c.Name
	if name == "" {
		name = e.topic.Name
	}
	if _, taken := s.names.Get(name); taken {
		return ErrTopicExists
	}
	s.forgetDeletion(e)
	e = s.mutableTopic(e)
	e.deletion = nil
	s.names.Set(name, c.ID)
	if name != e.topic.Name || d.reused {
		t := *e.topic
		t.Name = name
		_, gone := s.gone.Get(name)
		s.weighTopic(e.topic, -1)
		s.weighTopic(&t, 1)
		e.topic, e.earlier = &t, 0
		if gone || d.reused {
			e.earlier = s.nextProducerID
		}
		s.forgetProducers(e)
	}
	fx.Topics = append(fx.Topics, c.ID)
	e.partitions.Scan(func(n int32, p *partition) bool { // agents were not notified of markers written since the deletion
		fx.Partitions = append(fx.Partitions, PartitionEffect{
			Partition: id.TopicPartition{Topic: c.ID, Partition: n}, Watermarks: p.watermarks(),
		})
		return true
	})
	return nil
}

// forgetProducers clears the producer state of a mutable topic's partitions. It keeps their transactions.
func (s *machine) forgetProducers(e *topicEntry) {
	for _, n := range e.partitions.Keys() {
		p, _ := e.partitions.Get(n)
		p = s.mutablePartition(e, n, p)
		s.counting(e, p, func() {
			p.producers, p.resting = newProducers(), nil
			p.active, p.idle, p.forgotten = useOrder{}, useOrder{}, nil
		})
	}
}

// DeletedTopic is a deleted topic that can be undeleted.
type DeletedTopic struct {
	*Topic        // as it was
	Index  uint64 // log index of its deletion
	AtMs   int64  // command time of its deletion
	KeepMs int64  // how long after that it is to be purged
	Bytes  int64  // of its records
}

// DeletedTopics returns the topics that can be undeleted, in the order of their deletion. Each costs a walk over its partitions.
func (s *machine) DeletedTopics() iter.Seq[DeletedTopic] {
	return func(yield func(DeletedTopic) bool) {
		s.deletions.Scan(func(_ uint64, n id.Topic) bool {
			e, _ := s.topics.Get(topicKey(n))
			t := DeletedTopic{Topic: e.topic, Index: e.deletion.index(), AtMs: e.deletion.at, KeepMs: e.deletion.keep}
			e.partitions.Scan(func(_ int32, p *partition) bool {
				t.Bytes += p.extents.Totals().Bytes
				return true
			})
			return yield(t)
		})
	}
}

// HasDeletedOffsets reports whether a group has offsets, committed or pending, of topics whose deletion can be taken back.
func (s *machine) HasDeletedOffsets(group string) (found bool) {
	g, ok := s.groups.Get(group)
	if !ok || s.deletions.Len() == 0 {
		return false
	}
	g.topics.Scan(func(key string, _ *topicOffsets) bool {
		e, ok := s.topics.Get(key)
		found = ok && e.deletion != nil
		return !found
	})
	return found
}
