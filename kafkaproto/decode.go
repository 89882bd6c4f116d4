package kafkaproto

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DecodeBody reads a request's body into in and sets its version. CheckBody runs first, so that a claimed count or
// length allocates nothing that the body does not hold. Strings are copied, byte fields (records) alias body.
func DecodeBody(version int16, body []byte, in kmsg.Request) error {
	if err := CheckBody(in.Key(), version, body); err != nil {
		return err
	}
	in.SetVersion(version)
	if err := in.ReadFrom(body); err != nil {
		return fmt.Errorf("%w: %s version %d: %w", ErrMalformed, kmsg.NameForKey(in.Key()), version, err)
	}
	return nil
}

// ErrCorrupt is the base of errors about records that cannot be what was written: bad checksums, bytes that do not
// decompress, counts that are not true. It is never retried.
var ErrCorrupt = errors.New("corrupt records")
