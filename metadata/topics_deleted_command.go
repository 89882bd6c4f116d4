package metadata

import (
	"encoding/binary"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

type (
	// UndeleteTopic takes the deletion of a topic back: records, configs, offsets of groups and its id are as they were.
	// Result: nil, ErrUnknownTopic (it was purged, or never deleted), ErrTopicExists (another one has the name).
	UndeleteTopic struct {
		ID   id.Topic
		Name string // "" for the one it had
	}

	// PurgeTopics gives deleted topics up for good. Result: how many it found (int64).
	PurgeTopics struct{ Topics []PurgedTopic }

	// PurgedTopic names a topic by its deletion: one that was taken back and deleted again is another matter.
	PurgedTopic struct {
		ID    id.Topic
		Index uint64 // log index of the deletion
	}
)

const (
	// kindDeleteTopicKeeping is a DeleteTopic with a time for which it can be taken back.
	kindDeleteTopicKeeping commandKind = iota + 43
	kindUndeleteTopic
	kindPurgeTopics
)

func (c *DeleteTopic) kind() commandKind {
	if c.KeepMs > 0 {
		return kindDeleteTopicKeeping
	}
	return kindDeleteTopic
}
func (*UndeleteTopic) kind() commandKind { return kindUndeleteTopic }
func (*PurgeTopics) kind() commandKind   { return kindPurgeTopics }

func (c *UndeleteTopic) appendBody(dst []byte) []byte {
	return wire.AppendString(append(dst, c.ID[:]...), c.Name)
}

func (c *PurgeTopics) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Topics)))
	for _, t := range c.Topics {
		dst = binary.AppendUvarint(append(dst, t.ID[:]...), t.Index)
	}
	return dst
}

func readPurgeTopics(w *wire.Reader) *PurgeTopics {
	c := &PurgeTopics{}
	if n := w.Count(17); n > 0 {
		c.Topics = make([]PurgedTopic, 0, n)
		for range n {
			c.Topics = append(c.Topics, PurgedTopic{ID: readTopicID(w), Index: w.Uvarint()})
		}
	}
	return c
}

// readDeleteTopicKeeping reads one whose time is above 0, as kind says.
func readDeleteTopicKeeping(w *wire.Reader) *DeleteTopic {
	c := &DeleteTopic{ID: readTopicID(w), KeepMs: w.Varint()}
	if c.KeepMs <= 0 {
		w.Fail("deletion kept for %d ms", c.KeepMs)
	}
	return c
}

// recordDeleted comes before the topic that it says to be deleted: order, at, keep.
const recordDeleted recordTag = 38

func (s *machine) encodeDeletedTopics(f *sectionWriter) {
	s.deleted.byOrder.Scan(func(order uint64, d deletedTopic) bool {
		b := binary.AppendUvarint(append(f.buf, byte(recordDeleted)), order)
		b = binary.AppendVarint(b, d.at)
		f.buf = binary.AppendVarint(b, d.keep)
		f.recordDone()
		encodeTopic(f, d.entry)
		return f.err == nil
	})
}

// deletion is what was read of a deletion, until its topic comes.
type deletion struct {
	order    uint64
	at, keep int64
}

func (d *snapshotDecoder) readDeleted(w *wire.Reader) {
	x := &deletion{order: w.Uvarint(), at: w.Varint(), keep: w.Varint()}
	newest, _, some := d.s.deleted.byOrder.Max()
	if d.deletion != nil || x.keep <= 0 || some && x.order <= newest || x.order>>orderBits > d.s.index {
		w.Fail("deletion %d", x.order)
		return
	}
	d.deletion = x
}

// placeTopic puts a topic that was read where it belongs.
func (d *snapshotDecoder) placeTopic(w *wire.Reader, e *topicEntry) {
	s, key := d.s, topicKey(e.topic.ID)
	_, exists := s.topics.Get(key)
	if exists || s.deleted.has(key) {
		w.Fail("topic id twice")
		return
	}
	if x := d.deletion; x != nil {
		d.deletion = nil
		s.deleted.set(x.order, deletedTopic{entry: e, at: x.at, keep: x.keep})
		return
	}
	s.topics.Set(key, e)
	if _, twice := s.names.Set(e.topic.Name, e.topic.ID); twice {
		w.Fail("topic name twice")
	}
}
