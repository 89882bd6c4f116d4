package metadata

import (
	"iter"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/id"
)

// maxDeletedTopics bounds the topics whose deletion can be taken back. Beyond it the one deleted first goes for good.
const maxDeletedTopics = 10_000

// deletedTopic is a topic that clients do not see any more, whole: nothing but the ends of transactions changes it.
type deletedTopic struct {
	entry *topicEntry
	at    int64 // command time of its deletion
	keep  int64 // ms after which it is to be purged
}

// deletedTopics are the topics whose deletion can be taken back.
type deletedTopics struct {
	byOrder btree.Map[uint64, deletedTopic] // by the place of their deletion in the log (see machine.order)
	byID    btree.Map[string, uint64]       // topicKey -> order; derived
}

func (t *deletedTopics) snapshot() deletedTopics {
	return deletedTopics{byOrder: *t.byOrder.Copy(), byID: *t.byID.Copy()}
}

func (t *deletedTopics) has(key string) bool {
	_, ok := t.byID.Get(key)
	return ok
}

func (t *deletedTopics) get(key string) (order uint64, d deletedTopic, ok bool) {
	if order, ok = t.byID.Get(key); !ok {
		return 0, deletedTopic{}, false
	}
	d, _ = t.byOrder.Get(order)
	return order, d, true
}

func (t *deletedTopics) set(order uint64, d deletedTopic) {
	t.byOrder.Set(order, d)
	t.byID.Set(topicKey(d.entry.topic.ID), order)
}

func (t *deletedTopics) remove(order uint64, d deletedTopic) {
	t.byOrder.Delete(order)
	t.byID.Delete(topicKey(d.entry.topic.ID))
}

// keepDeleted puts a topic that was just taken out of the tables aside.
func (s *machine) keepDeleted(e *topicEntry, keepMs int64) {
	s.deleted.set(s.order(), deletedTopic{entry: e, at: s.now, keep: keepMs})
	if s.deleted.byOrder.Len() > maxDeletedTopics {
		order, d, _ := s.deleted.byOrder.Min()
		s.purge(order, d)
	}
}

// purge gives a deleted topic up for good; its extents leave their bundles step by step.
func (s *machine) purge(order uint64, d deletedTopic) {
	s.deleted.remove(order, d)
	s.counts.add(d.entry.counts, -1)
	s.cleanup.push(cleanupItem{partitions: d.entry.partitions.Copy()})
}

func (s *machine) purgeTopics(c *PurgeTopics) Result {
	var n int64
	for _, t := range c.Topics {
		if order, d, ok := s.deleted.get(topicKey(t.ID)); ok && order>>orderBits == t.Index {
			s.purge(order, d)
			n++
		}
	}
	return Result{Value: n}
}

// undeleteTopic puts a topic back as it was. Where another topic had the name meanwhile, or it gets another name, its
// producers are forgotten: clients number their batches by the name, so that those to come would be taken for repetitions,
// or for ahead of their sequence.
func (s *machine) undeleteTopic(c *UndeleteTopic, fx *Effects) error {
	order, d, ok := s.deleted.get(topicKey(c.ID))
	if !ok {
		return ErrUnknownTopic
	}
	e := d.entry
	name := c.Name
	if name == "" {
		name = e.topic.Name
	}
	if _, taken := s.names.Get(name); taken {
		return ErrTopicExists
	}
	s.deleted.remove(order, d)
	s.topics.Set(topicKey(c.ID), e)
	s.names.Set(name, c.ID)
	if at, gone := s.gone.Get(name); name != e.topic.Name || gone && at != d.at {
		e = s.mutableTopic(e)
		t := *e.topic
		t.Name = name
		e.topic, e.earlier = &t, 0
		if gone {
			e.earlier = s.nextProducerID
		}
		s.forgetProducers(e)
	}
	fx.Topics = append(fx.Topics, c.ID)
	e.partitions.Scan(func(n int32, p *partition) bool { // markers may have come that nobody was told of
		fx.Partitions = append(fx.Partitions, PartitionEffect{
			Partition: id.TopicPartition{Topic: c.ID, Partition: n}, Watermarks: p.watermarks(),
		})
		return true
	})
	return nil
}

// forgetProducers forgets what the partitions of a mutable topic know of producers, but for transactions.
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

// mutableDeleted gives the entry of a deleted topic to be changed.
func (s *machine) mutableDeleted(order uint64, d deletedTopic) *topicEntry {
	if d.entry.gen != s.gen {
		e := d.entry
		d.entry = &topicEntry{gen: s.gen, topic: e.topic, partitions: *e.partitions.Copy(), earlier: e.earlier, counts: e.counts}
		s.deleted.byOrder.Set(order, d)
	}
	return d.entry
}

// writeDeleted writes a marker to a partition of a deleted topic, if that is one: should the topic come back, the
// transactions that were open in it have ended as they ended elsewhere. Nobody is told.
func (w *markerWriter) writeDeleted(tp id.TopicPartition) {
	order, d, ok := w.deleted.get(topicKey(tp.Topic))
	if !ok {
		return
	}
	if p, ok := d.entry.partition(tp.Partition); ok && p.hasRoom() {
		e := w.mutableDeleted(order, d)
		w.writeMarker(w.mutablePartition(e, tp.Partition, p), w.marker)
	}
}

// DeletedTopic is a topic whose deletion can be taken back.
type DeletedTopic struct {
	*Topic        // as it was
	Index  uint64 // log index of its deletion
	AtMs   int64  // command time of its deletion
	KeepMs int64  // how long after that it is to be purged
	Bytes  int64  // of its records
}

// DeletedTopics gives the topics whose deletion can be taken back, in the order of their deletion. Each costs its
// partitions.
func (s *machine) DeletedTopics() iter.Seq[DeletedTopic] {
	return func(yield func(DeletedTopic) bool) {
		s.deleted.byOrder.Scan(func(order uint64, d deletedTopic) bool {
			t := DeletedTopic{Topic: d.entry.topic, Index: order >> orderBits, AtMs: d.at, KeepMs: d.keep}
			d.entry.partitions.Scan(func(_ int32, p *partition) bool {
				t.Bytes += p.extents.Totals().Bytes
				return true
			})
			return yield(t)
		})
	}
}

// HasDeletedOffsets tells whether a group has offsets, committed or pending, of topics whose deletion can be taken back.
func (s *machine) HasDeletedOffsets(group string) (found bool) {
	g, ok := s.groups.Get(group)
	if !ok || s.deleted.byID.Len() == 0 {
		return false
	}
	g.topics.Scan(func(key string, _ *topicOffsets) bool {
		found = s.deleted.has(key)
		return !found
	})
	return found
}
