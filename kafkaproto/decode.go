package kafkaproto

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DecodeBody reads a request's body into in, sets its version, and returns the size that CheckBody returns. CheckBody
// runs first, so that a claimed count or length allocates nothing that the body does not hold. The decoder sees the
// first size bytes only. Strings are copied, byte fields (records) alias body.
func DecodeBody(version int16, body []byte, in kmsg.Request) (size int, err error) {
	size, err = CheckBody(in.Key(), version, body)
	if err != nil {
		return 0, err
	}
	in.SetVersion(version)
	if err := in.ReadFrom(body[:size]); err != nil {
		return 0, fmt.Errorf("%w: %s version %d: %w", ErrMalformed, kmsg.NameForKey(in.Key()), version, err)
	}
	return size, nil
}

// ErrCorrupt is the base of errors about records that cannot be what was written: bad checksums, bytes that do not
// decompress, counts that are not true. It is never retried.
var ErrCorrupt = errors.New("corrupt records")
