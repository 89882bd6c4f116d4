package cache

import (
	"encoding/binary"
	"hash/crc32"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// pieces are bytes in several buffers, read as one.
type pieces [][]byte

func (p pieces) size() int {
	n := 0
	for _, b := range p {
		n += len(b)
	}
	return n
}

// cursor goes through pieces forwards.
type cursor struct {
	rest pieces
	at   int // in rest[0]
}

// peek gives as many of the next bytes as scratch has, from the pieces themselves if they lie together and else copied
// into scratch; nil if there are fewer.
func (c *cursor) peek(scratch []byte) []byte {
	c.settle()
	n := len(scratch)
	if len(c.rest) > 0 && len(c.rest[0])-c.at >= n {
		return c.rest[0][c.at : c.at+n]
	}
	got, at := 0, c.at
	for _, b := range c.rest {
		got += copy(scratch[got:], b[at:])
		at = 0
	}
	if got < n {
		return nil
	}
	return scratch
}

// skip goes n bytes on; false if there are fewer.
func (c *cursor) skip(n int) bool {
	for n > 0 && len(c.rest) > 0 {
		step := min(n, len(c.rest[0])-c.at)
		c.at += step
		n -= step
		c.settle()
	}
	return n == 0
}

// settle moves past used-up pieces.
func (c *cursor) settle() {
	for len(c.rest) > 0 && c.at == len(c.rest[0]) {
		c.rest, c.at = c.rest[1:], 0
	}
}

// crc is the CRC-32C of the next n bytes from offset on; the cursor stays.
func (c cursor) crc(offset, n int) uint32 {
	c.skip(offset)
	sum := uint32(0)
	for n > 0 && len(c.rest) > 0 {
		step := min(n, len(c.rest[0])-c.at)
		sum = crc32.Update(sum, castagnoli, c.rest[0][c.at:c.at+step])
		n -= step
		c.skip(step)
	}
	return sum
}

// put overwrites the next bytes; the cursor stays.
func (c cursor) put(src []byte) {
	for len(src) > 0 && len(c.rest) > 0 {
		n := copy(c.rest[0][c.at:], src)
		src = src[n:]
		c.skip(n)
	}
}

func (c cursor) putInt64(v int64) { c.put(binary.BigEndian.AppendUint64(nil, uint64(v))) }

func (c cursor) putInt32(v int32) { c.put(binary.BigEndian.AppendUint32(nil, uint32(v))) }
