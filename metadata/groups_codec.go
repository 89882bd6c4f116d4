package metadata

import (
	"encoding/binary"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// Flags in the bodies of group commands.
const (
	groupHasHead = 1 << iota
	groupReset
)

// Flags of one offset in CommitOffsets: a topic is written where it differs from that of the offset before.
const (
	offsetNewTopic = 1 << iota
	offsetHasEpoch
	offsetHasMetadata
	offsetHasExpiry
)

func (c *UpdateGroup) appendBody(dst []byte) []byte {
	dst = wire.AppendString(dst, c.Group)
	var flags byte
	if c.Head != nil {
		flags |= groupHasHead
	}
	if c.Reset {
		flags |= groupReset
	}
	dst = append(dst, byte(c.Kind), flags)
	if c.Head != nil {
		dst = wire.AppendBytes(dst, c.Head)
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Members)))
	for _, m := range c.Members {
		dst = wire.AppendString(dst, m.ID)
		dst = wire.AppendBool(dst, m.Value != nil)
		if m.Value != nil {
			dst = wire.AppendBytes(dst, m.Value)
		}
	}
	return dst
}

func (c *DeleteGroup) appendBody(dst []byte) []byte { return wire.AppendString(dst, c.Group) }

func (c *DeleteGroup) readBody(w *wire.Reader) { c.Group = w.String() }

func (c *UpdateGroup) readBody(w *wire.Reader) {
	c.Group, c.Kind = w.String(), GroupKind(w.Byte())
	flags := w.Byte()
	if flags > groupHasHead|groupReset {
		w.Fail("group flags %#x", flags)
	}
	c.Reset = flags&groupReset != 0
	if flags&groupHasHead != 0 {
		c.Head = append([]byte{}, w.Bytes()...)
	}
	n := w.Count(2)
	if n == 0 {
		return
	}
	c.Members = make([]GroupMember, 0, n)
	for range n {
		m := GroupMember{ID: w.String()}
		if w.Bool() {
			m.Value = append([]byte{}, w.Bytes()...)
		}
		c.Members = append(c.Members, m)
	}
}

func (c *CommitOffsets) appendBody(dst []byte) []byte {
	dst = wire.AppendString(dst, c.Group)
	dst = wire.AppendBool(dst, c.Transaction != nil)
	if c.Transaction != nil {
		dst = appendTransactionRef(dst, c.Transaction)
	}
	dst = binary.AppendUvarint(dst, uint64(len(c.Offsets)))
	var topic id.Topic
	for i := range c.Offsets {
		dst = appendOffsetCommit(dst, &c.Offsets[i], topic)
		topic = c.Offsets[i].Partition.Topic
	}
	return dst
}

func appendOffsetCommit(dst []byte, o *OffsetCommit, before id.Topic) []byte {
	var flags byte
	if o.Partition.Topic != before {
		flags |= offsetNewTopic
	}
	if o.LeaderEpoch != -1 {
		flags |= offsetHasEpoch
	}
	if o.Metadata != "" {
		flags |= offsetHasMetadata
	}
	if o.ExpiresMs != -1 {
		flags |= offsetHasExpiry
	}
	dst = append(dst, flags)
	if flags&offsetNewTopic != 0 {
		dst = append(dst, o.Partition.Topic[:]...)
	}
	dst = binary.AppendVarint(dst, int64(o.Partition.Partition))
	dst = binary.AppendVarint(dst, o.Offset)
	if flags&offsetHasEpoch != 0 {
		dst = binary.AppendVarint(dst, int64(o.LeaderEpoch))
	}
	if flags&offsetHasMetadata != 0 {
		dst = wire.AppendString(dst, o.Metadata)
	}
	if flags&offsetHasExpiry != 0 {
		dst = binary.AppendVarint(dst, o.ExpiresMs)
	}
	return dst
}

func (c *CommitOffsets) readBody(w *wire.Reader) {
	c.Group = w.String()
	if w.Bool() {
		c.Transaction = new(TransactionRef)
		*c.Transaction = readTransactionRef(w)
	}
	n := w.Count(3)
	if n == 0 {
		return
	}
	c.Offsets = make([]OffsetCommit, 0, n)
	var topic id.Topic
	for range n {
		o := readOffsetCommit(w, topic)
		topic = o.Partition.Topic
		c.Offsets = append(c.Offsets, o)
	}
}

func readOffsetCommit(w *wire.Reader, before id.Topic) OffsetCommit {
	o := OffsetCommit{LeaderEpoch: -1, ExpiresMs: -1}
	flags := w.Byte()
	if flags > offsetNewTopic|offsetHasEpoch|offsetHasMetadata|offsetHasExpiry {
		w.Fail("offset flags %#x", flags)
	}
	o.Partition.Topic = before
	if flags&offsetNewTopic != 0 {
		o.Partition.Topic = readTopicID(w)
	}
	o.Partition.Partition, o.Offset = w.Int32(), w.Varint()
	if flags&offsetHasEpoch != 0 {
		o.LeaderEpoch = w.Int32()
	}
	if flags&offsetHasMetadata != 0 {
		o.Metadata = w.String()
	}
	if flags&offsetHasExpiry != 0 {
		o.ExpiresMs = w.Varint()
	}
	return o
}

func (c *DeleteOffsets) appendBody(dst []byte) []byte {
	dst = wire.AppendString(dst, c.Group)
	dst = wire.AppendBool(dst, c.CommittedBefore != nil)
	dst = binary.AppendUvarint(dst, uint64(len(c.Partitions)))
	for i, tp := range c.Partitions {
		dst = append(dst, tp.Topic[:]...)
		dst = binary.AppendVarint(dst, int64(tp.Partition))
		if c.CommittedBefore != nil {
			dst = binary.AppendVarint(dst, c.CommittedBefore[i])
		}
	}
	return dst
}

func (c *DeleteOffsets) readBody(w *wire.Reader) {
	c.Group = w.String()
	conditional := w.Bool()
	n := w.Count(17)
	if conditional {
		c.CommittedBefore = make([]int64, 0, n)
	}
	for range n {
		c.Partitions = append(c.Partitions, id.TopicPartition{Topic: readTopicID(w), Partition: w.Int32()})
		if conditional {
			c.CommittedBefore = append(c.CommittedBefore, w.Varint())
		}
	}
}
