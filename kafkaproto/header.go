package kafkaproto

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// PrefixSize is the number of bytes that say how large a frame is and which API it is of: size, key, version.
const PrefixSize = 8

// MinFrame is the smallest size a request frame can claim: key, version and correlation id.
const MinFrame = 8

// ErrMalformed is the base of every decoding error of this package: the bytes are not what the protocol allows.
var ErrMalformed = errors.New("malformed kafka message")

// Prefix is the start of a request frame.
type Prefix struct {
	Size    int32 // bytes after the size field itself
	Key     int16
	Version int16
}

// ParsePrefix reads the first PrefixSize bytes of a frame.
func ParsePrefix(p [PrefixSize]byte) Prefix {
	return Prefix{
		Size:    int32(binary.BigEndian.Uint32(p[0:])),
		Key:     int16(binary.BigEndian.Uint16(p[4:])),
		Version: int16(binary.BigEndian.Uint16(p[6:])),
	}
}

// Header is a request's header after its prefix.
type Header struct {
	CorrelationID int32
	ClientID      []byte // aliases the frame; nil if null
}

// ParseHeader reads the rest of a request header from p, the frame after its prefix, and gives the body. Requests
// with flexible headers carry tagged fields there, which are skipped.
func ParseHeader(key, version int16, p []byte) (Header, []byte, error) {
	var h Header
	r := reader{src: p}
	h.CorrelationID = r.int32()
	if n := r.int16(); n >= 0 {
		h.ClientID = r.take(int(n))
	}
	if e, ok := Lookup(key); ok && e.IsFlexible(version) {
		r.tags(new(int))
	}
	if r.err != nil {
		return Header{}, nil, fmt.Errorf("request header: %w", r.err)
	}
	return h, r.src, nil
}

// AppendResponseHeader appends the size field and header of a response whose body has bodySize bytes.
func AppendResponseHeader(dst []byte, key, version int16, correlationID int32, bodySize int) []byte {
	flexible := flexibleResponseHeader(key, version)
	size := 4 + bodySize
	if flexible {
		size++
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(size))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if flexible {
		dst = append(dst, 0)
	}
	return dst
}

// flexibleResponseHeader: an ApiVersions response never has tagged fields in its header, so that a client can read it
// before it knows the broker's versions (KIP-511).
func flexibleResponseHeader(key, version int16) bool {
	e, ok := Lookup(key)
	return ok && key != KeyApiVersions && e.IsFlexible(version)
}
