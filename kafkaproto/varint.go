package kafkaproto

import (
	"bufio"
	"errors"
)

// maxVarint32 and maxVarint64 are the bytes of the longest varints of 32 and 64 bits.
const (
	maxVarint32 = 5
	maxVarint64 = 10
)

// errVarint is returned for a varint of more bytes than Java reads.
var errVarint = errors.New("varint too long")

// ReadVarint reads a zigzag varint of 32 bits, as all fields of records are but the timestamp delta, and returns the number of its bytes. It
// returns an error for more than 5 bytes, as Java does (ByteUtils.readVarint), and the reader's error, io.EOF in the middle too.
func ReadVarint(r *bufio.Reader) (v int64, n int, err error) { return readVarint(r, maxVarint32) }

// ReadVarlong is ReadVarint of the timestamp delta, with 64 bits.
func ReadVarlong(r *bufio.Reader) (v int64, n int, err error) { return readVarint(r, maxVarint64) }

func readVarint(r *bufio.Reader, most int) (v int64, n int, err error) {
	var u uint64
	for shift := 0; n < most; shift += 7 {
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
