package metadata

import (
	"encoding/binary"
	"slices"

	"github.com/tidwall/btree"

	"github.com/freshet-io/freshet/metadata/internal/wire"
)

func (s *machine) encodeGroups(f *sectionWriter) {
	s.groups.Scan(func(name string, g *groupEntry) bool {
		f.buf = append(f.buf, byte(recordGroup))
		f.buf = wire.AppendString(f.buf, name)
		f.buf = append(f.buf, byte(g.kind))
		f.buf = wire.AppendBytes(f.buf, g.head)
		f.recordDone()
		encodeMembers(f, &g.members)
		g.topics.Scan(func(key string, t *topicOffsets) bool {
			encodeTopicOffsets(f, key, t)
			return f.err == nil
		})
		return f.err == nil
	})
	if s.offsetSweep != (offsetCursor{}) {
		f.buf = append(f.buf, byte(recordOffsetSweep))
		f.buf = wire.AppendString(f.buf, s.offsetSweep.group)
		f.buf = wire.AppendString(f.buf, s.offsetSweep.topic)
		f.recordDone()
	}
}

// encodeMembers writes each member as a record of its own: values may be large.
func encodeMembers(f *sectionWriter, members *btree.Map[string, []byte]) {
	members.Scan(func(member string, value []byte) bool {
		f.buf = append(f.buf, byte(recordGroupMember))
		f.buf = wire.AppendString(f.buf, member)
		f.buf = wire.AppendBytes(f.buf, value)
		f.recordDone()
		return f.err == nil
	})
}

func encodeTopicOffsets(f *sectionWriter, key string, t *topicOffsets) {
	f.buf = append(f.buf, byte(recordGroupTopic))
	f.buf = append(f.buf, key...)
	f.recordDone()
	encodeItems(f, recordOffsets, &t.offsets, appendOffset)
	if t.notes != nil {
		encodeItems(f, recordOffsetNotes, t.notes, appendOffsetNote)
	}
	if t.pending == nil {
		return
	}
	t.pending.Scan(func(n int32, list []pendingOffset) bool {
		f.beginList(binary.AppendUvarint([]byte{byte(recordPendingOffsets)}, uint64(n))...)
		for i := range list {
			b := binary.AppendUvarint(f.list.items, uint64(list[i].producer))
			b = appendOffset(b, &list[i].offset)
			f.list.items = appendOffsetNote(b, &list[i].note)
			f.itemDone()
		}
		f.endWholeList()
		return f.err == nil
	})
}

func appendOffset(b []byte, o *offset) []byte {
	b = binary.AppendVarint(b, o.offset)
	b = binary.AppendVarint(b, o.committed)
	b = binary.AppendUvarint(b, o.order)
	return binary.AppendVarint(b, int64(o.epoch))
}

func appendOffsetNote(b []byte, n *offsetNote) []byte {
	b = wire.AppendString(b, n.metadata)
	return binary.AppendVarint(b, n.expires)
}

// groupDecoder is the group and the topic that the records to come belong to.
type groupDecoder struct {
	group *groupEntry
	gen   uint64
	topic *topicOffsets
}

func (d *snapshotDecoder) readGroup(w *wire.Reader) {
	name, g := w.String(), &groupEntry{gen: d.s.gen, kind: GroupKind(w.Byte())}
	if head := w.Bytes(); len(head) > 0 {
		g.head = slices.Clone(head)
	}
	if _, twice := d.s.groups.Set(name, g); twice {
		w.Fail("group twice")
	}
	d.groups = groupDecoder{group: g, gen: d.s.gen}
}

func (d *snapshotDecoder) readOffsetSweep(w *wire.Reader) {
	d.s.offsetSweep = offsetCursor{group: w.String(), topic: w.String()}
}

func (d *groupDecoder) readMember(w *wire.Reader) {
	member, value := w.String(), append([]byte{}, w.Bytes()...)
	if _, twice := d.group.members.Set(member, value); twice {
		w.Fail("group member twice")
	}
}

func (d *groupDecoder) readTopic(w *wire.Reader) {
	d.topic = &topicOffsets{gen: d.gen, offsets: *btree.NewMap[int32, offset](offsetsDegree)}
	if _, twice := d.group.topics.Set(topicKey(readTopicID(w)), d.topic); twice {
		w.Fail("topic of a group twice")
	}
}

// readPartitionNumber reads a partition's number as the key that it is of.
func readPartitionNumber(w *wire.Reader) int32 {
	n := w.Offset()
	if n >= MaxPartitions {
		w.Fail("partition %d", n)
		return 0
	}
	return int32(n)
}

func readOffset(w *wire.Reader) offset {
	return offset{offset: w.Varint(), committed: w.Varint(), order: w.Uvarint(), epoch: w.Int32()}
}

func readOffsetNote(w *wire.Reader) offsetNote {
	return offsetNote{metadata: w.String(), expires: w.Varint()}
}

func (d *groupDecoder) readOffsets(w *wire.Reader) {
	for range w.Count(5) {
		n, o := readPartitionNumber(w), readOffset(w)
		if w.Err() != nil {
			return
		}
		if _, twice := d.topic.offsets.Set(n, o); twice {
			w.Fail("offset twice")
		}
	}
}

func (d *groupDecoder) readNotes(w *wire.Reader) {
	for range w.Count(3) {
		n, note := readPartitionNumber(w), readOffsetNote(w)
		if _, ok := d.topic.offsets.Get(n); !ok || note.empty() {
			w.Fail("note of no offset")
		}
		if w.Err() != nil {
			return
		}
		if d.topic.notes == nil {
			d.topic.notes = new(btree.Map[int32, offsetNote])
		}
		d.topic.notes.Set(n, note)
		d.topic.noteBytes += note.weight()
	}
}

// readPending reads pending offsets of one partition, which may have several records: producers ascend over all of them.
func (d *groupDecoder) readPending(w *wire.Reader) {
	n := readPartitionNumber(w)
	if d.topic.pending == nil {
		d.topic.pending = new(btree.Map[int32, []pendingOffset])
	}
	list, _ := d.topic.pending.Get(n)
	before := len(list)
	for range w.Count(7) {
		p := pendingOffset{producer: w.Offset(), offset: readOffset(w), note: readOffsetNote(w)}
		if len(list) > 0 && p.producer <= list[len(list)-1].producer {
			w.Fail("pending offsets of producer %d out of order", p.producer)
		}
		if w.Err() != nil {
			return
		}
		list = append(list, p)
		d.topic.countPending(&p, 1)
	}
	if len(list) == before {
		w.Fail("no pending offsets")
		return
	}
	d.topic.pending.Set(n, list)
}
