package forwarded

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/session"
)

// ErrAnswerTooLarge is returned for an answer above session.MaxAnswerBytes. The client's connection is closed.
var ErrAnswerTooLarge = fmt.Errorf("%w: the answer is too large", session.ErrBadRequest)

// AnswerBytes counts the bytes of an answer while it is built. A request that names one topic a thousand times is refused before the answer
// exists.
type AnswerBytes int

// Add counts n bytes. Its error is ErrAnswerTooLarge.
func (b *AnswerBytes) Add(n int) error {
	if *b += AnswerBytes(n); *b > session.MaxAnswerBytes {
		return ErrAnswerTooLarge
	}
	return nil
}

// EncodedBytes returns the bytes of an answer in a version.
func EncodedBytes(out kmsg.Response, version int16) int {
	out.SetVersion(version)
	return len(out.AppendTo(nil))
}
