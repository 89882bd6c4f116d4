package metadata

import (
	"encoding/binary"

	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// Bootstrap is the first command of a virtual cluster. ClusterID is the cluster id that Kafka clients see. Result: nil or ErrBootstrapped.
type Bootstrap struct{ ClusterID string }

func (c *Bootstrap) appendBody(dst []byte) []byte { return wire.AppendString(dst, c.ClusterID) }

func (c *Bootstrap) readBody(w *wire.Reader) { c.ClusterID = w.String() }

// RaiseVersion raises the version of the state once every replica supports the new one. Result: nil or ErrVersion.
type RaiseVersion struct{ Version uint32 }

func (c *RaiseVersion) appendBody(dst []byte) []byte {
	return binary.AppendUvarint(dst, uint64(c.Version))
}

func (c *RaiseVersion) readBody(w *wire.Reader) { c.Version = w.Uint32() }

// AllocateProducerIDs reserves the next Count producer ids. Result: first id (int64).
type AllocateProducerIDs struct{ Count int32 }

func (c *AllocateProducerIDs) appendBody(dst []byte) []byte {
	return binary.AppendVarint(dst, int64(c.Count))
}

func (c *AllocateProducerIDs) readBody(w *wire.Reader) { c.Count = w.Int32() }

// Tick does a bounded share of the time-driven work. It drains the cleanup queue, puts idle producers to rest and drops offsets of
// purged topics. It also forgets closed sessions and names of deleted topics, and aborts transactions that timed out.
type Tick struct{}

func (*Tick) appendBody(dst []byte) []byte { return dst }

func (*Tick) readBody(*wire.Reader) {}

// CheckHash asserts the state's hash after entry Index. Apply only adds CheckHash to Effects.Checks, because a hash costs a walk over
// the state. A replica that holds a snapshot of Index compares the hashes, and must stop if they differ.
type CheckHash struct {
	Index uint64
	Hash  uint64
}

func (c *CheckHash) appendBody(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, c.Index)
	return binary.LittleEndian.AppendUint64(dst, c.Hash)
}

func (c *CheckHash) readBody(w *wire.Reader) {
	c.Index, c.Hash = w.Uvarint(), readUint64(w)
}
