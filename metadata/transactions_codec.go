package metadata

import (
	"encoding/binary"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

func (c *InitTransaction) appendBody(dst []byte) []byte {
	dst = wire.AppendString(dst, c.TransactionalID)
	dst = binary.AppendVarint(dst, int64(c.TimeoutMs))
	dst = binary.AppendVarint(dst, c.ProducerID)
	return binary.AppendVarint(dst, int64(c.ProducerEpoch))
}

func (c *InitTransaction) readBody(w *wire.Reader) {
	c.TransactionalID, c.TimeoutMs, c.ProducerID, c.ProducerEpoch = w.String(), w.Int32(), w.Varint(), w.Int16()
}

func (c *AddPartitions) appendBody(dst []byte) []byte {
	dst = appendTransactionRef(dst, &c.TransactionRef)
	return appendPartitions(dst, c.Partitions)
}

func (c *AddPartitions) readBody(w *wire.Reader) {
	c.TransactionRef, c.Partitions = readTransactionRef(w), readPartitions(w)
}

func (c *AddOffsets) appendBody(dst []byte) []byte {
	return wire.AppendString(appendTransactionRef(dst, &c.TransactionRef), c.Group)
}

func (c *AddOffsets) readBody(w *wire.Reader) {
	c.TransactionRef, c.Group = readTransactionRef(w), w.String()
}

func (c *EndTransaction) appendBody(dst []byte) []byte {
	dst = appendTransactionRef(dst, &c.TransactionRef)
	return wire.AppendBool(dst, c.Commit)
}

func (c *EndTransaction) readBody(w *wire.Reader) {
	c.TransactionRef, c.Commit = readTransactionRef(w), w.Bool()
}

func (c *WriteMarkers) appendBody(dst []byte) []byte {
	dst = binary.AppendVarint(dst, c.ProducerID)
	dst = binary.AppendVarint(dst, int64(c.Epoch))
	dst = wire.AppendBool(dst, c.Commit)
	dst = binary.AppendVarint(dst, int64(c.CoordinatorEpoch))
	return appendPartitions(dst, c.Partitions)
}

func (c *WriteMarkers) readBody(w *wire.Reader) {
	c.ProducerID, c.Epoch, c.Commit, c.CoordinatorEpoch = w.Varint(), w.Int16(), w.Bool(), w.Int32()
	c.Partitions = readPartitions(w)
}

// appendTransactionRef is for every command that holds one.
func appendTransactionRef(dst []byte, r *TransactionRef) []byte {
	dst = wire.AppendString(dst, r.TransactionalID)
	dst = binary.AppendVarint(dst, r.ProducerID)
	dst = binary.AppendVarint(dst, int64(r.Epoch))
	dst = append(dst, byte(r.Version))
	return binary.AppendUvarint(dst, r.AsOf)
}

func readTransactionRef(w *wire.Reader) TransactionRef {
	return TransactionRef{
		TransactionalID: w.String(), ProducerID: w.Varint(), Epoch: w.Int16(), Version: int8(w.Byte()), AsOf: w.Uvarint(),
	}
}

func appendPartitions(dst []byte, list []id.TopicPartition) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(list)))
	for _, tp := range list {
		dst = append(dst, tp.Topic[:]...)
		dst = binary.AppendVarint(dst, int64(tp.Partition))
	}
	return dst
}

// readPartitions reads partitions, nil if there are none.
func readPartitions(w *wire.Reader) []id.TopicPartition {
	n := w.Count(17)
	if n == 0 {
		return nil
	}
	list := make([]id.TopicPartition, 0, n)
	for range n {
		list = append(list, id.TopicPartition{Topic: readTopicID(w), Partition: w.Int32()})
	}
	return list
}
