// Package wire has the few primitives that the metadata formats are written in: varints as in encoding/binary
// (unsigned LEB128, zigzag for signed), length-prefixed bytes, and a reader that never panics, never allocates from a
// claimed length, and remembers its first failure.
package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// ErrMalformed is what every failure of a Reader wraps.
var ErrMalformed = errors.New("malformed bytes")

// AppendString appends s with its length in front.
func AppendString(dst []byte, s string) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(s)))
	return append(dst, s...)
}

// AppendBytes appends b with its length in front.
func AppendBytes(dst, b []byte) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(b)))
	return append(dst, b...)
}

// AppendBool appends one byte, 0 or 1.
func AppendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}

// Reader takes values off the front of a byte slice. After the first failure every method returns zero values; ask
// Err or Done at the end. The zero Reader reads nothing.
type Reader struct {
	b   []byte
	err error
}

// NewReader reads b, which must not change while it is read.
func NewReader(b []byte) Reader { return Reader{b: b} }

// Err is the first failure, or nil.
func (r *Reader) Err() error { return r.err }

// Len is the number of bytes left.
func (r *Reader) Len() int { return len(r.b) }

// Rest gives the bytes left and takes them.
func (r *Reader) Rest() []byte {
	b := r.b
	r.b = nil
	return b
}

// Done returns the first failure, or one if bytes are left.
func (r *Reader) Done() error {
	if r.err == nil && len(r.b) > 0 {
		r.Fail("%d bytes left over", len(r.b))
	}
	return r.err
}

// Fail records a failure, if it is the first.
func (r *Reader) Fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, fmt.Sprintf(format, args...))
	}
	r.b = nil
}

// Uvarint reads an unsigned varint.
func (r *Reader) Uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.Fail("varint cut or too long")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Varint reads a zigzag varint.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.Fail("varint cut or too long")
		return 0
	}
	r.b = r.b[n:]
	return v
}

// Uint32 reads an unsigned varint that fits 32 bits.
func (r *Reader) Uint32() uint32 {
	v := r.Uvarint()
	if v > math.MaxUint32 {
		r.Fail("%d exceeds 32 bits", v)
		return 0
	}
	return uint32(v)
}

// Int32 reads a zigzag varint that fits 32 bits.
func (r *Reader) Int32() int32 {
	v := r.Varint()
	if v < math.MinInt32 || v > math.MaxInt32 {
		r.Fail("%d exceeds 32 bits", v)
		return 0
	}
	return int32(v)
}

// Int16 reads a zigzag varint that fits 16 bits.
func (r *Reader) Int16() int16 {
	v := r.Varint()
	if v < math.MinInt16 || v > math.MaxInt16 {
		r.Fail("%d exceeds 16 bits", v)
		return 0
	}
	return int16(v)
}

// Offset reads an unsigned varint that fits a non-negative int64.
func (r *Reader) Offset() int64 {
	v := r.Uvarint()
	if v > math.MaxInt64 {
		r.Fail("%d exceeds 63 bits", v)
		return 0
	}
	return int64(v)
}

// Byte reads one byte.
func (r *Reader) Byte() byte {
	b := r.Take(1)
	if b == nil {
		return 0
	}
	return b[0]
}

// Bool reads a byte that is 0 or 1.
func (r *Reader) Bool() bool {
	b := r.Byte()
	if b > 1 {
		r.Fail("%d is no bool", b)
	}
	return b == 1
}

// Take takes n bytes, aliasing the input; nil on failure.
func (r *Reader) Take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.Fail("%d bytes wanted, %d left", n, len(r.b))
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// Bytes reads length-prefixed bytes, aliasing the input.
func (r *Reader) Bytes() []byte {
	n := r.Uvarint()
	if n > uint64(len(r.b)) {
		r.Fail("%d bytes wanted, %d left", n, len(r.b))
		return nil
	}
	return r.Take(int(n))
}

// String reads a length-prefixed string.
func (r *Reader) String() string { return string(r.Bytes()) }

// Count reads the number of items that follow, each of at least minSize (>= 1) bytes. A count that the rest of the
// input cannot hold is a failure, so callers may allocate by it.
func (r *Reader) Count(minSize int) int {
	n := r.Uvarint()
	if n > uint64(len(r.b)/minSize) {
		r.Fail("%d items claimed in %d bytes", n, len(r.b))
		return 0
	}
	return int(n)
}
