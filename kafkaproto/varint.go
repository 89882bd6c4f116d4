package kafkaproto

import (
	"bufio"
	"errors"
)

// errVarint: more bytes than 64 bits take.
var errVarint = errors.New("varint too long")

// ReadVarint reads a zigzag varint of at most 64 bits, as records have them, and gives how many bytes it took. It ends with
// the reader's error, io.EOF in the middle too.
func ReadVarint(r *bufio.Reader) (v int64, n int, err error) {
	var u uint64
	for shift := 0; shift < 70; shift += 7 {
		c, err := r.ReadByte()
		if err != nil {
			return 0, n, err
		}
		n++
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int64(u>>1) ^ -int64(u&1), n, nil
		}
	}
	return 0, n, errVarint
}
