package metadata

import (
	"encoding/binary"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// CreateTopic adds a topic. Result: nil, ErrTopicExists, ErrPartitionCount, ErrReplicationFactor, ErrConfigsTooLarge or *LimitError.
type CreateTopic struct {
	ID         id.Topic
	Name       string
	Partitions int32
	// ReplicationFactor is what clients read back. Default DefaultReplicationFactor.
	ReplicationFactor int16
	Configs           map[string]string // only those set explicitly
}

func (c *CreateTopic) appendBody(dst []byte) []byte {
	dst = append(dst, c.ID[:]...)
	dst = wire.AppendString(dst, c.Name)
	dst = binary.AppendVarint(dst, int64(c.Partitions))
	dst = binary.AppendVarint(dst, int64(c.ReplicationFactor))
	return appendStringMap(dst, c.Configs)
}

func (c *CreateTopic) readBody(w *wire.Reader) {
	c.ID, c.Name, c.Partitions = readTopicID(w), w.String(), w.Int32()
	c.ReplicationFactor, c.Configs = w.Int16(), readStringMap(w)
}

// DeleteTopic removes a topic logically: it is unknown at once, and its name is free. Result: nil or
// ErrUnknownTopic.
type DeleteTopic struct {
	ID id.Topic
	// KeepMs is how long the topic can be undeleted. 0 purges it at once.
	KeepMs int64
}

func (c *DeleteTopic) appendBody(dst []byte) []byte {
	return binary.AppendVarint(append(dst, c.ID[:]...), c.KeepMs)
}

func (c *DeleteTopic) readBody(w *wire.Reader) { c.ID, c.KeepMs = readTopicID(w), w.Varint() }

// UndeleteTopic restores a deleted topic with its id, records, configs and group offsets. Result: nil, ErrUnknownTopic if it was purged or
// never deleted, or ErrTopicExists if another topic has the name.
type UndeleteTopic struct {
	ID   id.Topic
	Name string // "" for the one it had
}

func (c *UndeleteTopic) appendBody(dst []byte) []byte {
	return wire.AppendString(append(dst, c.ID[:]...), c.Name)
}

func (c *UndeleteTopic) readBody(w *wire.Reader) { c.ID, c.Name = readTopicID(w), w.String() }

// PurgeTopics removes deleted topics before their KeepMs is over. Result: the number of topics that it removed (int64).
type PurgeTopics struct{ Topics []PurgedTopic }

// PurgedTopic identifies one deletion of a topic. PurgeTopics ignores a topic that was undeleted and deleted again since.
type PurgedTopic struct {
	ID    id.Topic
	Index uint64 // log index of the deletion
}

func (c *PurgeTopics) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(c.Topics)))
	for _, t := range c.Topics {
		dst = binary.AppendUvarint(append(dst, t.ID[:]...), t.Index)
	}
	return dst
}

func (c *PurgeTopics) readBody(w *wire.Reader) {
	n := w.Count(17)
	if n == 0 {
		return
	}
	c.Topics = make([]PurgedTopic, 0, n)
	for range n {
		c.Topics = append(c.Topics, PurgedTopic{ID: readTopicID(w), Index: w.Uvarint()})
	}
}

// CreatePartitions raises a topic's partition count to Count. Result: nil, ErrUnknownTopic, ErrPartitionCount or
// *LimitError.
type CreatePartitions struct {
	ID    id.Topic
	Count int32
}

func (c *CreatePartitions) appendBody(dst []byte) []byte {
	return binary.AppendVarint(append(dst, c.ID[:]...), int64(c.Count))
}

func (c *CreatePartitions) readBody(w *wire.Reader) { c.ID, c.Count = readTopicID(w), w.Int32() }

// SetReplicationFactor changes the replication factor that clients read back. Result: nil, ErrUnknownTopic or ErrReplicationFactor.
type SetReplicationFactor struct {
	ID     id.Topic
	Factor int16
}

func (c *SetReplicationFactor) appendBody(dst []byte) []byte {
	return binary.AppendVarint(append(dst, c.ID[:]...), int64(c.Factor))
}

func (c *SetReplicationFactor) readBody(w *wire.Reader) { c.ID, c.Factor = readTopicID(w), w.Int16() }

// SetConfigs changes configs of one resource: first Set, then Delete, whose keys return to their default. The
// owner has validated names and values. Result: nil, ErrUnknownTopic, ErrConfigsTooLarge or *LimitError.
type SetConfigs struct {
	Resource ConfigResource
	Name     string   // of a broker (node id, "" = cluster default), group or client-metrics resource
	Topic    id.Topic // of a topic
	Set      map[string]string
	Delete   []string
}

// ConfigResource is the kind of a resource that has configs, numbered as in Kafka's ConfigResource.Type.
type ConfigResource int8

// The resources that have configs.
const (
	ConfigTopic         ConfigResource = 2
	ConfigBroker        ConfigResource = 4
	ConfigClientMetrics ConfigResource = 16
	ConfigGroup         ConfigResource = 32
)

func (c *SetConfigs) appendBody(dst []byte) []byte {
	dst = append(dst, byte(c.Resource))
	dst = wire.AppendString(dst, c.Name)
	dst = append(dst, c.Topic[:]...)
	dst = appendStringMap(dst, c.Set)
	dst = binary.AppendUvarint(dst, uint64(len(c.Delete)))
	for _, k := range c.Delete {
		dst = wire.AppendString(dst, k)
	}
	return dst
}

func (c *SetConfigs) readBody(w *wire.Reader) {
	c.Resource, c.Name, c.Topic, c.Set = ConfigResource(w.Byte()), w.String(), readTopicID(w), readStringMap(w)
	n := w.Count(1)
	if n == 0 {
		return
	}
	c.Delete = make([]string, 0, n)
	for range n {
		c.Delete = append(c.Delete, w.String())
	}
}
