package metadata

import (
	"iter"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata/id"
)

// topicOffsets are the offsets that a group committed of one topic.
type topicOffsets struct {
	gen     uint64
	offsets btree.Map[int32, offset]
	notes   *btree.Map[int32, offsetNote]      // of partitions in offsets that have one; nil if none
	pending *btree.Map[int32, []pendingOffset] // slices are replaced, never changed; nil if none

	pendingCount int64 // pending offsets; derived
	pendingBytes int64 // their sum of pendingWeight; derived
	noteBytes    int64 // weight of the notes; derived
}

// offset is a committed offset. It has no pointers: a million of them cost the garbage collector nothing.
type offset struct {
	offset    int64
	committed int64  // command time, ms
	order     uint64 // of the commit among all commits (see State.order)
	epoch     int32
}

// offsetNote is what few committed offsets have besides.
type offsetNote struct {
	metadata string
	expires  int64 // ms; -1: by the retention configured
}

func (n offsetNote) empty() bool { return n.metadata == "" && n.expires == -1 }

// offsetsDegree keeps nodes small (about 2 KiB): the first commit to one after a snapshot copies it.
const offsetsDegree = 24

// Offset is a committed offset.
type Offset struct {
	Offset      int64
	LeaderEpoch int32 // -1 if the client named none
	Metadata    string
	CommittedMs int64 // command time
	ExpiresMs   int64 // ms since the epoch; -1: by the retention configured
}

// order ranks commits by their place in the log: entry, then command. Kafka compares offsets of records to the same
// end. An entry has fewer than 2^orderBits commands.
func (s *machine) order() uint64 { return s.index<<orderBits | uint64(s.position) }

const orderBits = 20

// mutableOffsets gives what an entry to be changed has of a topic, to be changed.
func (s *machine) mutableOffsets(g *groupEntry, key string) *topicOffsets {
	t, ok := g.topics.Get(key)
	switch {
	case !ok:
		t = &topicOffsets{gen: s.gen, offsets: *btree.NewMap[int32, offset](offsetsDegree)}
		s.weighTopicOffsets(t, 1)
	case t.gen == s.gen:
		return t
	default:
		m := &topicOffsets{gen: s.gen, offsets: *t.offsets.Copy(), pendingCount: t.pendingCount, pendingBytes: t.pendingBytes, noteBytes: t.noteBytes}
		if t.notes != nil {
			m.notes = t.notes.Copy()
		}
		if t.pending != nil {
			m.pending = t.pending.Copy()
		}
		t = m
	}
	g.topics.Set(key, t)
	return t
}

// set stores a committed offset.
func (t *topicOffsets) set(partition int32, o offset, n offsetNote) {
	t.offsets.Set(partition, o)
	switch {
	case !n.empty():
		if t.notes == nil {
			t.notes = new(btree.Map[int32, offsetNote])
		}
		if old, ok := t.notes.Set(partition, n); ok {
			t.noteBytes -= old.weight()
		}
		t.noteBytes += n.weight()
	case t.notes != nil:
		t.dropNote(partition)
	}
}

func (t *topicOffsets) dropNote(partition int32) {
	if t.notes != nil {
		if old, ok := t.notes.Delete(partition); ok {
			t.noteBytes -= old.weight()
		}
		if t.notes.Len() == 0 {
			t.notes = nil
		}
	}
}

// remove drops a partition's offset and its pending ones.
func (t *topicOffsets) remove(partition int32) {
	t.offsets.Delete(partition)
	t.dropNote(partition)
	if t.pending != nil {
		list, _ := t.pending.Delete(partition)
		for i := range list {
			t.countPending(&list[i], -1)
		}
		if t.pending.Len() == 0 {
			t.pending = nil
		}
	}
}

func (t *topicOffsets) empty() bool { return t.offsets.Len() == 0 && t.pending == nil }

func (t *topicOffsets) get(partition int32) (Offset, bool) {
	o, ok := t.offsets.Get(partition)
	if !ok {
		return Offset{}, false
	}
	return t.view(partition, o), true
}

func (t *topicOffsets) view(partition int32, o offset) Offset {
	v := Offset{Offset: o.offset, LeaderEpoch: o.epoch, CommittedMs: o.committed, ExpiresMs: -1}
	if t.notes != nil {
		if n, ok := t.notes.Get(partition); ok {
			v.Metadata, v.ExpiresMs = n.metadata, n.expires
		}
	}
	return v
}

func (s *machine) commitOffsets(c *CommitOffsets, _ *Effects) Result {
	if c.Transaction != nil {
		if err := s.enterOffsets(c); err != nil {
			return Result{Err: err}
		}
	}
	errs := make([]error, len(c.Offsets))
	var g *groupEntry
	var t *topicOffsets
	var last id.Topic
	for i := range c.Offsets {
		o := &c.Offsets[i]
		if errs[i] = s.allowsOffset(c, i); errs[i] != nil {
			continue
		}
		if g == nil {
			g = s.mutableGroup(c.Group)
		}
		if t == nil || o.Partition.Topic != last {
			t, last = s.mutableOffsets(g, topicKey(o.Partition.Topic)), o.Partition.Topic
		}
		value := offset{offset: o.Offset, committed: s.now, order: s.order(), epoch: o.LeaderEpoch}
		note := offsetNote{metadata: o.Metadata, expires: o.ExpiresMs}
		s.weighOffsets(t, func() {
			if c.Transaction == nil {
				t.set(o.Partition.Partition, value, note)
			} else {
				t.addPending(o.Partition.Partition, pendingOffset{producer: c.Transaction.ProducerID, offset: value, note: note})
			}
		})
	}
	return Result{Value: errs}
}

// allowsOffset returns the error of one offset of a commit. The commit's transaction was checked before.
func (s *machine) allowsOffset(c *CommitOffsets, i int) error {
	if !s.takesOffsets(c.Offsets[i].Partition) {
		return ErrUnknownPartition
	}
	if c.Transaction != nil {
		return nil
	}
	return s.allowsCommit(c.Group, c.Offsets[i:i+1])
}

func (s *machine) deleteOffsets(c *DeleteOffsets, _ *Effects) Result {
	if _, ok := s.groups.Get(c.Group); !ok {
		return Result{Err: ErrUnknownGroup}
	}
	errs := make([]error, len(c.Partitions))
	g := s.mutableGroup(c.Group)
	for i, tp := range c.Partitions {
		if !s.takesOffsets(tp) {
			errs[i] = ErrUnknownPartition
			continue
		}
		before := int64(-1)
		if c.CommittedBefore != nil {
			before = c.CommittedBefore[i]
		}
		s.deleteOffset(g, tp, c.CommittedBefore != nil, before)
	}
	s.dropIfEmpty(c.Group, g)
	return Result{Value: errs}
}

// deleteOffset removes an offset and the pending offsets of its partition; if conditional, only one committed at before or earlier
// of which nothing is pending.
func (s *machine) deleteOffset(g *groupEntry, tp id.TopicPartition, conditional bool, before int64) {
	key := topicKey(tp.Topic)
	t, ok := g.topics.Get(key)
	if !ok {
		return
	}
	if conditional {
		o, ok := t.offsets.Get(tp.Partition)
		if !ok || o.committed > before || t.hasPending(tp.Partition) {
			return
		}
	}
	t = s.mutableOffsets(g, key)
	s.weighOffsets(t, func() { t.remove(tp.Partition) })
	if t.empty() {
		s.weighTopicOffsets(t, -1)
		g.topics.Delete(key)
	}
}

// offsetTopic returns the name of a topic whose offsets groups see: a live topic of the state, or an internal one, which the state does not
// have.
func (s *machine) offsetTopic(key string) (name string, ok bool) {
	if e, ok := s.liveTopic(key); ok {
		return e.topic.Name, true
	}
	if t := internaltopic.ByID(topicOfKey(key)); t != nil {
		return t.Name, true
	}
	return "", false
}

// takesOffsets reports whether groups can commit offsets of a partition.
func (s *machine) takesOffsets(tp id.TopicPartition) bool {
	if internaltopic.Has(tp.Topic) {
		return tp.Partition >= 0 && tp.Partition < internaltopic.Partitions
	}
	_, ok := s.partitionEntry(tp)
	return ok
}

// groupTopic returns a group's offsets of a topic, nil if there are none or the topic was deleted.
func (s *machine) groupTopic(group string, topic id.Topic) *topicOffsets {
	g, ok := s.groups.Get(group)
	if !ok {
		return nil
	}
	key := topicKey(topic)
	if _, ok := s.offsetTopic(key); !ok {
		return nil
	}
	t, _ := g.topics.Get(key)
	return t
}

// Offset gives the offset that a group has committed for a partition; false if none, or if its topic was deleted.
func (s *machine) Offset(group string, tp id.TopicPartition) (Offset, bool) {
	t := s.groupTopic(group, tp.Topic)
	if t == nil {
		return Offset{}, false
	}
	return t.get(tp.Partition)
}

// Offsets gives all offsets that a group has committed for partitions of topics that exist, by topic id, then number.
func (s *machine) Offsets(group string) iter.Seq2[id.TopicPartition, Offset] {
	return s.OffsetsFrom(group, id.TopicPartition{})
}

// OffsetsFrom is Offsets from a partition on, for callers that read in several turns.
func (s *machine) OffsetsFrom(group string, from id.TopicPartition) iter.Seq2[id.TopicPartition, Offset] {
	return func(yield func(id.TopicPartition, Offset) bool) {
		g, ok := s.groups.Get(group)
		if !ok {
			return
		}
		g.topics.Ascend(topicKey(from.Topic), func(key string, t *topicOffsets) bool {
			if _, ok := s.offsetTopic(key); !ok {
				return true
			}
			more, topic, first := true, topicOfKey(key), int32(0)
			if topic == from.Topic {
				first = from.Partition
			}
			t.offsets.Ascend(first, func(n int32, o offset) bool {
				more = yield(id.TopicPartition{Topic: topic, Partition: n}, t.view(n, o))
				return more
			})
			return more
		})
	}
}
