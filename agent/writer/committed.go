package writer

import (
	"slices"
	"sync/atomic"

	"github.com/freshet-io/freshet/agent/slab"
	"github.com/freshet-io/freshet/metadata/id"
)

// pieceOverhead is what one piece's bookkeeping costs, bytes.
const pieceOverhead = 32

// Committed is the memory of one committed bundle: its accepted batches, with true base offsets and kafkaproto.LogEpoch,
// ready to be sent to consumers. The bytes never change. It is shared by reference count: whoever reads it holds a
// reference (Retain) and gives it back (Release); with the last one the memory is used again.
type Committed struct {
	ID   id.Bundle
	Size uint32 // of the whole object, bytes

	pieces []piece // ascending positions, not overlapping
	slabs  []*slab.Slab
	held   int64
	refs   atomic.Int32
}

// piece is one or more batches that lie together in the object and in memory.
type piece struct {
	position uint32 // in the object
	bytes    []byte
}

func (p piece) end() uint32 { return p.position + uint32(len(p.bytes)) }

// Held is the memory the bundle holds by capacity, bytes.
func (c *Committed) Held() int64 { return c.held }

// Pieces calls yield with all bytes there are, in the order of their positions in the object. The caller holds a
// reference for as long as it uses them.
func (c *Committed) Pieces(yield func(position uint32, bytes []byte)) {
	for _, p := range c.pieces {
		yield(p.position, p.bytes)
	}
}

// Retain adds a reference. The caller holds one already, or is in OnCommitted.
func (c *Committed) Retain() {
	if c.refs.Add(1) <= 1 {
		panic("writer: committed bundle retained after its release")
	}
}

// Release gives a reference back.
func (c *Committed) Release() {
	switch n := c.refs.Add(-1); {
	case n > 0:
	case n < 0:
		panic("writer: committed bundle released too often")
	default:
		for _, s := range c.slabs {
			s.Release()
		}
		c.slabs, c.pieces = nil, nil
	}
}

// Slices appends the bytes [position, position+length) of the object to dst, in order and without copying. ok is
// false, and dst as it was, if they are not all here: batches that were not accepted with the bundle's first commit
// are missing, so a sequence gap that closed later is read from the object store. The caller holds a reference for
// as long as it uses the bytes.
func (c *Committed) Slices(dst [][]byte, position, length uint32) (_ [][]byte, ok bool) {
	end := position + length
	i, _ := slices.BinarySearchFunc(c.pieces, position, func(p piece, at uint32) int {
		if p.end() <= at {
			return -1
		}
		return 1
	})
	before := len(dst)
	for at := position; at < end; i++ {
		if i == len(c.pieces) || c.pieces[i].position > at {
			return dst[:before], false
		}
		p := c.pieces[i]
		upTo := min(end, p.end())
		dst = append(dst, p.bytes[at-p.position:upTo-p.position:upTo-p.position])
		at = upTo
	}
	return dst, true
}
