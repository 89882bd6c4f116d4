package group

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/session"
)

// errAnswerTooLarge is returned for an answer above session.MaxAnswerBytes. The client's connection is closed.
var errAnswerTooLarge = fmt.Errorf("%w: the answer is too large", session.ErrBadRequest)

// answerBytes counts the bytes of an answer while it is built, so that a request which names one group a thousand times is refused before
// the answer exists.
type answerBytes int

// add counts n bytes. Its error is errAnswerTooLarge.
func (b *answerBytes) add(n int) error {
	if *b += answerBytes(n); *b > session.MaxAnswerBytes {
		return errAnswerTooLarge
	}
	return nil
}

// answerField is the least size of a group or topic in an answer, in bytes.
const answerField = 8

// sizeOfOffset returns the memory of a partition while the answer is built, which is more than its encoded bytes.
func sizeOfOffset(p *kmsg.OffsetFetchResponseGroupTopicPartition) int {
	n := 64
	if p.Metadata != nil {
		n += len(*p.Metadata)
	}
	return n
}

func sizeOfOffsets(topics []kmsg.OffsetFetchResponseGroupTopic) (n int) {
	for i := range topics {
		t := &topics[i]
		n += answerField + len(t.Topic)
		for j := range t.Partitions {
			n += sizeOfOffset(&t.Partitions[j])
		}
	}
	return n
}

// encodedBytes returns the bytes of an answer.
func encodedBytes(out kmsg.Response, version int16) int {
	out.SetVersion(version)
	return len(out.AppendTo(nil))
}
