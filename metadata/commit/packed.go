package commit

import (
	"encoding/binary"
	"math/bits"
)

// blockValues is the number of values in one block of a packed column.
const blockValues = 64

// appendColumn appends values as a packed column.
func appendColumn(dst []byte, values []uint64) []byte {
	for len(values) > 0 {
		n := min(len(values), blockValues)
		dst = appendBlock(dst, values[:n])
		values = values[n:]
	}
	return dst
}

func appendBlock(dst []byte, values []uint64) []byte {
	base, top := values[0], values[0]
	for _, v := range values[1:] {
		base, top = min(base, v), max(top, v)
	}
	width := uint(bits.Len64(top - base))
	dst = binary.AppendUvarint(dst, base)
	dst = append(dst, byte(width))
	if width == 0 {
		return dst
	}
	start := len(dst)
	dst = append(dst, make([]byte, (uint(len(values))*width+7)/8)...)
	out := dst[start:]
	for i, v := range values {
		putBits(out, uint(i)*width, width, v-base)
	}
	return dst
}

// putBits ors the low width bits of v into out at bit position pos.
func putBits(out []byte, pos, width uint, v uint64) {
	for width > 0 {
		room := 8 - pos%8
		out[pos/8] |= byte(v << (pos % 8))
		if width <= room {
			return
		}
		v >>= room
		pos += room
		width -= room
	}
}

// column reads a packed column that skipColumn has measured.
type column struct {
	data  []byte // what follows the current block's header, to the end of the commit
	left  int    // values after the current block
	inner int    // values left in the current block
	bit   uint   // position of the next value in the current block
	base  uint64
	mask  uint64
	width uint
}

// skipColumn gives the bytes after the column of count values that starts at p; false if it is cut or malformed.
func skipColumn(p []byte, count int) ([]byte, bool) {
	for count > 0 {
		n := min(count, blockValues)
		_, head := binary.Uvarint(p)
		if head <= 0 || head == len(p) || p[head] > 64 {
			return nil, false
		}
		size := head + 1 + (n*int(p[head])+7)/8
		if size > len(p) {
			return nil, false
		}
		p = p[size:]
		count -= n
	}
	return p, true
}

func newColumn(p []byte, count int) column { return column{data: p, left: count} }

// block moves to the next block.
func (c *column) block() {
	c.data = c.data[(c.bit+7)/8:]
	var head int
	c.base, head = binary.Uvarint(c.data)
	c.width = uint(c.data[head])
	c.mask = 1<<c.width - 1
	c.data = c.data[head+1:]
	c.bit = 0
	c.inner = min(c.left, blockValues)
	c.left -= c.inner
}

// next gives the next value. Reading more values than the column has gives 0.
func (c *column) next() uint64 {
	if c.inner == 0 {
		if c.left == 0 {
			return 0
		}
		c.block()
	}
	c.inner--
	if c.width == 0 {
		return c.base
	}
	i := c.bit / 8
	if c.width > 57 || int(i)+8 > len(c.data) {
		return c.nextSlow()
	}
	v := binary.LittleEndian.Uint64(c.data[i:]) >> (c.bit % 8)
	c.bit += c.width
	return c.base + v&c.mask
}

// nextSlow is next for wide values and for the end of the input, byte by byte.
func (c *column) nextSlow() uint64 {
	var v uint64
	for got := uint(0); got < c.width; {
		room := 8 - c.bit%8
		take := min(room, c.width-got)
		part := uint64(c.data[c.bit/8]>>(c.bit%8)) & (1<<take - 1)
		v |= part << got
		got += take
		c.bit += take
	}
	return c.base + v
}

// more tells whether next has a value to give.
func (c *column) more() bool { return c.inner > 0 || c.left > 0 }
