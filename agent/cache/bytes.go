package cache

import (
	"net"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
)

// Bytes are batches of an extent in memory, offsets true and leader epochs kafkaproto.LogEpoch. They stay valid and unchanged until
// Release.
type Bytes struct {
	Extent   extent.Extent
	Position uint32 // of the first byte in the object
	More     bool   // the extent has batches behind these
	units    []*unit
	pieces   pieces
}

// Release ends the use of the bytes, once.
func (b *Bytes) Release() {
	for _, u := range b.units {
		u.release()
	}
	b.units, b.pieces = nil, nil
}

// Batch is where one record batch lies in its extent's bytes.
type Batch struct {
	Position     int // in the extent's bytes
	Size         int
	Base         int64 // first offset
	Last         int64 // last offset
	MaxTimestamp int64
}

// Batches calls yield with the batches in order until it returns false.
func (b *Bytes) Batches(yield func(Batch) bool) {
	var scratch [kafkaproto.BatchOverhead]byte
	c := cursor{rest: b.pieces}
	for at := 0; ; {
		h := kafkaproto.RecordBatch(c.peek(scratch[:]))
		if h == nil {
			return
		}
		batch := Batch{
			Position: at, Size: h.Length(), Base: h.BaseOffset(), Last: h.LastOffset(), MaxTimestamp: h.MaxTimestamp(),
		}
		if !yield(batch) || !c.skip(batch.Size) {
			return
		}
		at += batch.Size
	}
}

// Size is the number of bytes.
func (b *Bytes) Size() int { return b.pieces.size() }

// Append adds the bytes of [from, to) to dst without copying them.
func (b *Bytes) Append(dst net.Buffers, from, to int) net.Buffers {
	for _, p := range b.pieces {
		if from < len(p) && to > 0 {
			lo, hi := max(from, 0), min(to, len(p))
			dst = append(dst, p[lo:hi:hi])
		}
		from, to = from-len(p), to-len(p)
	}
	return dst
}

// Copy gives one batch's bytes in one slice: the cached ones if they lie together, else a copy. Not to be changed.
func (b *Bytes) Copy(batch Batch) kafkaproto.RecordBatch {
	parts := b.Append(nil, batch.Position, batch.Position+batch.Size)
	if len(parts) == 1 {
		return parts[0]
	}
	out := make([]byte, 0, batch.Size)
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}
