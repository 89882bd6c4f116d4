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

// answerField is the least size of a group, member or topic in an answer, in bytes.
const answerField = 8

func sizeOfDescribed(g *kmsg.DescribeGroupsResponseGroup) int {
	n := answerField + len(g.Group)
	for i := range g.Members {
		m := &g.Members[i]
		n += answerField + len(m.MemberID) + len(m.ClientID) + len(m.ClientHost) + len(m.ProtocolMetadata) + len(m.MemberAssignment)
	}
	return n
}

func sizeOfConsumers(g *kmsg.ConsumerGroupDescribeResponseGroup) int {
	n := answerField + len(g.Group)
	for i := range g.Members {
		m := &g.Members[i]
		n += answerField + len(m.MemberID) + len(m.ClientID) + len(m.ClientHost)
		for _, t := range m.SubscribedTopics {
			n += len(t)
		}
		for _, t := range m.Assignment.TopicPartitions {
			n += answerField + len(t.Topic) + 4*len(t.Partitions)
		}
		for _, t := range m.TargetAssignment.TopicPartitions {
			n += answerField + len(t.Topic) + 4*len(t.Partitions)
		}
	}
	return n
}

func sizeOfOffset(p *kmsg.OffsetFetchResponseGroupTopicPartition) int {
	n := 4 + 8 + 4 + 2
	if p.Metadata != nil {
		n += len(*p.Metadata)
	}
	return n
}

func sizeOfOffsets(g *kmsg.OffsetFetchResponseGroup) int {
	n := answerField + len(g.Group)
	for i := range g.Topics {
		t := &g.Topics[i]
		n += answerField + len(t.Topic)
		for j := range t.Partitions {
			n += sizeOfOffset(&t.Partitions[j])
		}
	}
	return n
}
