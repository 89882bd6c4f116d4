package objstore

import (
	"fmt"
	"hash/crc32"
	"strings"
)

// Castagnoli is the table of the CRC-32C that object stores and record batches share.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// NewBody is the body made of the buffers, its checksum computed by reading them. Callers that know the checksum
// already fill Body themselves.
func NewBody(buffers ...[]byte) Body {
	body := Body{Buffers: buffers}
	for _, b := range buffers {
		body.Size += int64(len(b))
		body.CRC32C = crc32.Update(body.CRC32C, Castagnoli, b)
	}
	return body
}

// CheckSize returns an error if Size is not the sum of the buffers' lengths: a put would hang or be torn.
func (b Body) CheckSize() error {
	var n int64
	for _, buf := range b.Buffers {
		n += int64(len(buf))
	}
	if n != b.Size {
		return fmt.Errorf("body size %d, but its buffers hold %d bytes", b.Size, n)
	}
	return nil
}

// maxKeyLength is S3's bound on a key, in bytes.
const maxKeyLength = 1024

// CheckKey returns ErrKey unless the key is one or more non-empty segments joined by slashes, none of them "." or
// "..", of at most 1024 bytes without control characters. Such keys mean the same to every provider.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKeyLength {
		return fmt.Errorf("%w: %d bytes long", ErrKey, len(key))
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return fmt.Errorf("%w: %q has the segment %q", ErrKey, key, segment)
		}
	}
	if strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Errorf("%w: %q has a control character", ErrKey, key)
	}
	return nil
}

// CheckKeys returns an error if there are more than MaxKeys keys, and ErrKey if one is invalid.
func CheckKeys(keys []string) error {
	if len(keys) > MaxKeys {
		return fmt.Errorf("%d keys, at most %d", len(keys), MaxKeys)
	}
	for _, key := range keys {
		if err := CheckKey(key); err != nil {
			return err
		}
	}
	return nil
}

// CheckLimit returns an error unless limit is 1 to MaxKeys.
func CheckLimit(limit int) error {
	if limit < 1 || limit > MaxKeys {
		return fmt.Errorf("page of %d objects, want 1 to %d", limit, MaxKeys)
	}
	return nil
}
