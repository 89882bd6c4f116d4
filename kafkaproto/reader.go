package kafkaproto

import (
	"encoding/binary"
	"fmt"
)

// reader takes protocol primitives off a byte slice without allocating. After the first fault it gives zeros and
// keeps the error.
type reader struct {
	src []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s", ErrMalformed, what)
		r.src = nil
	}
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.src) {
		r.fail("length exceeds the message")
		return nil
	}
	p := r.src[:n:n]
	r.src = r.src[n:]
	return p
}

func (r *reader) int16() int16 {
	if p := r.take(2); p != nil {
		return int16(binary.BigEndian.Uint16(p))
	}
	return 0
}

func (r *reader) int32() int32 {
	if p := r.take(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

// uvarint reads an unsigned varint of at most 32 bits.
func (r *reader) uvarint() uint32 {
	var v uint64
	for i := range 5 {
		if i >= len(r.src) {
			r.fail("varint exceeds the message")
			return 0
		}
		b := r.src[i]
		v |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			if v > 1<<32-1 {
				break
			}
			r.src = r.src[i+1:]
			return uint32(v)
		}
	}
	r.fail("varint of more than 32 bits")
	return 0
}

// tags skips tagged fields, adding their number to count.
func (r *reader) tags(count *int) {
	n := r.uvarint()
	if int64(n)*2 > int64(len(r.src)) { // tag number and size take a byte each at least
		r.fail("tag count exceeds the message")
		return
	}
	*count += int(n)
	for range n {
		r.uvarint()
		r.take(int(r.uvarint()))
		if r.err != nil {
			return
		}
	}
}
