package writer

import (
	"unsafe"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/commit"
)

const (
	// spareShare: memory is copied to its own size if more than this share of what it holds is unused (1/spareShare
	// used at most).
	spareShare = 2
	// smallBatch: bundles of batches smaller than this on average are copied into the object's order, so that
	// consumers get long stretches rather than a slice per batch.
	smallBatch = 2 << 10
)

// compact copies the batches, in the object's order, to memory of just their size, if the bundle holds much more than
// it uses or is made of very small batches. Nothing may read the memory.
func (b *sealed) compact() {
	held := 0
	for _, s := range b.slabs {
		held += s.Cap()
	}
	if held <= spareShare*b.bytes && b.bytes >= smallBatch*len(b.entries) {
		return
	}
	to := b.s.w.cfg.Pool.ForceExact(b.bytes)
	for _, g := range b.groups {
		for i := g.first; i >= 0; i = b.entries[i].next {
			b.entries[i].bytes = to.Append(b.entries[i].bytes)
		}
	}
	for _, s := range b.slabs {
		s.Release()
	}
	b.slabs = append(b.slabs[:0], to)
	b.s.w.metrics.compacted.Inc()
}

// handOver patches the accepted batches and gives the memory to the sink; without accepted batches it is released.
// No PUT attempt reads it any more: patching earlier could corrupt what a late attempt stores.
func (b *sealed) handOver(result *commit.Result) {
	w := b.s.w
	if result == nil || w.cfg.Sink == nil {
		b.release()
		return
	}
	c := &Committed{ID: b.name().Bundle(), Size: b.size, pieces: b.patch(), slabs: b.slabs}
	if len(c.pieces) == 0 {
		b.release()
		return
	}
	c.held = int64(len(c.pieces)) * pieceOverhead
	for _, s := range b.slabs {
		s.Transfer()
		c.held += int64(s.Cap())
	}
	b.slabs = nil
	b.release()
	c.refs.Store(1)
	w.cfg.Sink.OnCommitted(c)
	c.Release()
}

// patch writes the base offsets into the accepted batches and gives them as pieces, those that lie together in the
// object and in memory as one.
func (b *sealed) patch() []piece {
	var pieces []piece
	for _, g := range b.groups {
		for i := g.first; i >= 0; i = b.entries[i].next {
			e := &b.entries[i]
			bytes := e.bytes
			e.bytes = nil
			if e.base < 0 {
				continue
			}
			batch := kafkaproto.RecordBatch(bytes)
			batch.SetBaseOffset(e.base)
			batch.SetPartitionLeaderEpoch(kafkaproto.LogEpoch)
			pieces = appendPiece(pieces, piece{position: e.position, bytes: bytes})
		}
	}
	return pieces
}

// appendPiece adds a piece, as part of the last one if it follows that in the object and in the same slab: its
// capacity reaches to the slab's end.
func appendPiece(pieces []piece, p piece) []piece {
	if n := len(pieces); n > 0 {
		last := &pieces[n-1]
		if size := len(last.bytes) + len(p.bytes); last.end() == p.position && size <= cap(last.bytes) {
			if joined := last.bytes[:size]; unsafe.SliceData(joined[len(last.bytes):]) == unsafe.SliceData(p.bytes) {
				last.bytes = joined
				return pieces
			}
		}
	}
	return append(pieces, p)
}
