package metadata

import (
	"encoding/binary"

	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// Bootstrap is the first command of a virtual cluster: its cluster id as Kafka clients see it.
type Bootstrap struct{ ClusterID string }

func (c *Bootstrap) appendBody(dst []byte) []byte { return wire.AppendString(dst, c.ClusterID) }

func (c *Bootstrap) readBody(w *wire.Reader) { c.ClusterID = w.String() }

// RaiseVersion lifts the state machine's version once every replica supports it.
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

// Tick lets time-driven rules run: results of sessions closed longer than 10 minutes and expired producers go.
type Tick struct{}

func (*Tick) appendBody(dst []byte) []byte { return dst }

func (*Tick) readBody(*wire.Reader) {}

// CheckHash asserts the state's hash after entry Index; a replica that differs must stop. Applying it changes
// nothing and compares nothing (a hash costs a walk over everything): it is handed on in Effects.Checks to a
// replica that holds a snapshot of that index.
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
