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
