package group

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/internal/forwarded"
)

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
func encodedBytes(out kmsg.Response, version int16) int { return forwarded.EncodedBytes(out, version) }
