package recode

import (
	"bytes"
	"context"
	"encoding/binary"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sync/semaphore"

	"github.com/freshet-io/freshet/kafkaproto"
)

// ordinaryRoom is what every turn may take, bytes: zstd's window up to level 19 (ZSTD_defaultCParameters; levels 20 to 22
// have 32 to 128 MiB), and that of Go's encoder.
const ordinaryRoom = 8 << 20

// largeTurn is for one batch of the process, whoever opens it, whose decompressor takes more than ordinaryRoom.
// Few are such; and a zstd window is taken at the first block, however small the batch is.
var largeTurn = semaphore.NewWeighted(1)

// enter waits until the batch may be opened; leave ends its turn. Who waits for the large turn has no ordinary one yet, so
// that batches which need no more than that go past.
func (c *Recoder) enter(ctx context.Context, b kafkaproto.RecordBatch) (leave func(), err error) {
	leaveLarge, err := enterLarge(ctx, b)
	if err != nil {
		return nil, err
	}
	if err := c.turns.Acquire(ctx, 1); err != nil {
		leaveLarge()
		return nil, err
	}
	return func() {
		c.turns.Release(1)
		leaveLarge()
	}, nil
}

// large tells whether the batch needs the large turn.
func large(b kafkaproto.RecordBatch) bool {
	return room(b.Codec(), b[kafkaproto.BatchOverhead:]) > ordinaryRoom
}

// enterLarge waits for the large turn if the batch needs it; leave ends it.
func enterLarge(ctx context.Context, b kafkaproto.RecordBatch) (leave func(), err error) {
	if !large(b) {
		return func() {}, nil
	}
	if err := largeTurn.Acquire(ctx, 1); err != nil {
		return nil, err
	}
	return func() { largeTurn.Release(1) }, nil
}

// room tells how many bytes the batch's decompressor holds at once, or more; 0 where the codec has a bound below
// ordinaryRoom (gzip 32 KiB, lz4 8 MiB at most).
func room(codec kafkaproto.Codec, p []byte) uint64 {
	switch codec {
	case kafkaproto.Zstd:
		return zstdRoom(p)
	case kafkaproto.Snappy:
		return snappyRoom(p)
	default:
		return 0
	}
}

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// zstdRoom is the largest window of all frames that p has: that of a single segment is its content. Whatever looks like the
// begin of a frame is taken for one, which is too much only by a rare chance, and never too little.
func zstdRoom(p []byte) (most uint64) {
	var h zstd.Header
	for {
		at := bytes.Index(p, zstdMagic)
		if at < 0 {
			return most
		}
		p = p[at:]
		// A header that is broken is the decompressor's to refuse.
		if h.Decode(p) == nil {
			window := h.WindowSize
			if h.SingleSegment {
				window = h.FrameContentSize
			}
			most = max(most, window)
		}
		p = p[len(zstdMagic):]
	}
}

// snappyRoom is what the largest block claims.
func snappyRoom(p []byte) (most uint64) {
	claim := func(block []byte) {
		if n, err := snappy.DecodedLen(block); err == nil {
			most = max(most, uint64(n))
		}
	}
	if !bytes.HasPrefix(p, xerial[:8]) {
		claim(p)
		return most
	}
	for p = p[min(len(p), len(xerial)):]; len(p) >= 4; {
		size := binary.BigEndian.Uint32(p)
		p = p[4:]
		if uint64(size) > uint64(len(p)) {
			return most
		}
		claim(p[:size])
		p = p[size:]
	}
	return most
}
