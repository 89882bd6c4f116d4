package forwarded

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// EncodedBytes returns the bytes of an answer in a version.
func EncodedBytes(out kmsg.Response, version int16) int {
	out.SetVersion(version)
	return len(out.AppendTo(nil))
}
