package cache

import (
	"fmt"

	"github.com/freshet-io/freshet/kafkaproto"
	"github.com/freshet-io/freshet/metadata/extent"
)

// CorruptError says that stored bytes are not what the sequencer knows of them. Reading again may heal it, if the
// bytes were damaged on the way.
type CorruptError struct {
	Key      string // of the object
	Position int64  // of the batch in the object
	Offset   int64  // that the batch has, or should have
	Stored   uint32 // checksum in the batch
	Computed uint32 // checksum of its bytes
	Reason   string
}

// Error gives all that is known.
func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt batch in %s at %d (offset %d): %s, checksum stored %08x computed %08x",
		e.Key, e.Position, e.Offset, e.Reason, e.Stored, e.Computed)
}

// makeReady verifies and patches an extent's batches in its units. One unit remembers that; extents over several are
// done again each time, because their units may be exchanged one at a time.
func makeReady(units []*unit, e *extent.Extent, p pieces) *CorruptError {
	if len(units) == 1 {
		return units[0].makeReady(e, p)
	}
	for _, u := range units { // in the order of positions, so that nobody waits crosswise
		u.mu.Lock()
		defer u.mu.Unlock()
	}
	if err := verify(e, p); err != nil {
		return err
	}
	patch(e, p)
	return nil
}

func (u *unit) makeReady(e *extent.Extent, p pieces) *CorruptError {
	if u.own != nil {
		return nil
	}
	key := readyKey{position: e.Position, length: e.Length, base: e.Base, last: e.Last}
	u.mu.Lock()
	defer u.mu.Unlock()
	if _, ok := u.mu.ready[key]; ok {
		return nil
	}
	if err := verify(e, p); err != nil {
		return err
	}
	patch(e, p)
	if u.mu.ready == nil {
		u.mu.ready = make(map[readyKey]struct{})
	}
	u.mu.ready[key] = struct{}{}
	return nil
}

// verify checks that the bytes are exactly the extent's batches, each with its checksum, before any is changed.
func verify(e *extent.Extent, p pieces) *CorruptError {
	var scratch [kafkaproto.BatchOverhead]byte
	c := cursor{rest: p}
	at, next, left := int64(0), e.Base, int(e.Length)
	fault := func(reason string) *CorruptError {
		return &CorruptError{Position: int64(e.Position) + at, Offset: next, Reason: reason}
	}
	for n := uint32(0); left > 0; n++ {
		h := kafkaproto.RecordBatch(c.peek(scratch[:]))
		switch {
		case h == nil || left < kafkaproto.BatchOverhead:
			return fault("shorter than a batch")
		case h.Magic() != 2:
			return fault("not a batch of format 2")
		case h.Length() < kafkaproto.BatchOverhead || h.Length() > left:
			return fault("length out of the extent")
		case h.LastOffsetDelta() < 0:
			return fault("negative last offset delta")
		}
		size := h.Length()
		if sum := c.crc(crcFrom, size-crcFrom); sum != h.CRC() {
			err := fault("checksum does not match")
			err.Stored, err.Computed = h.CRC(), sum
			return err
		}
		if e.Kind == extent.Absolute {
			if h.BaseOffset() < next || h.LastOffset() > e.Last {
				return fault("offsets out of the extent")
			}
			next = h.LastOffset() + 1
		} else {
			next += int64(h.LastOffsetDelta()) + 1
		}
		c.skip(size)
		at, left = at+int64(size), left-size
	}
	if e.Kind == extent.Relative && next != e.Last+1 {
		return fault("offsets do not add up to the extent's")
	}
	return nil
}

// crcFrom is where the checksummed part of a batch begins.
const crcFrom = 21

// patch gives verified batches their offsets and kafkaproto.LogEpoch. What has them already is not written: readers may
// hold it.
func patch(e *extent.Extent, p pieces) {
	var scratch [kafkaproto.BatchOverhead]byte
	c := cursor{rest: p}
	for next, left := e.Base, int(e.Length); left > 0; {
		h := kafkaproto.RecordBatch(c.peek(scratch[:]))
		size, delta := h.Length(), int64(h.LastOffsetDelta())
		if e.Kind == extent.Absolute {
			next = h.BaseOffset()
		}
		if h.BaseOffset() != next {
			c.putInt64(next)
		}
		if h.PartitionLeaderEpoch() != kafkaproto.LogEpoch {
			leaderEpoch := c
			leaderEpoch.skip(leaderEpochAt)
			leaderEpoch.putInt32(kafkaproto.LogEpoch)
		}
		c.skip(size)
		next, left = next+delta+1, left-size
	}
}

// leaderEpochAt is the position of a batch's leader epoch.
const leaderEpochAt = 12
