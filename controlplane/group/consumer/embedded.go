package consumer

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata/id"
)

// maxEmbeddedVersion is the newest version of the protocol that classic consumers embed in JoinGroup and SyncGroup.
const maxEmbeddedVersion = 3

// subscription is what a classic consumer says of itself when it joins.
type subscription struct{ kmsg.ConsumerMemberMetadata }

// readSubscription reads the metadata of a protocol; false if it is malformed. Later versions are read as the last
// known one.
func readSubscription(metadata []byte) (subscription, bool) {
	var s subscription
	if err := s.ReadFrom(metadata); err != nil || s.Version < 0 {
		return subscription{}, false
	}
	return s, true
}

// owned returns the partitions that the consumer owns, in the form of a heartbeat. It is empty for subscription versions
// without owned partitions.
func (s subscription) owned(cat Catalogue) reported {
	out := reported{}
	for _, o := range s.OwnedPartitions {
		if t, _, ok := cat.Topic(o.Topic); ok {
			out = append(out, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: t, Partitions: o.Partitions})
		}
	}
	return out
}

// encodeAssignment returns partitions in the form of a classic consumer, in the version of its subscription metadata.
// Deleted topics are left out.
func encodeAssignment(partitions []id.TopicPartition, metadata []byte, cat Catalogue) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	if len(metadata) >= 2 {
		a.Version = min(int16(binary.BigEndian.Uint16(metadata)), maxEmbeddedVersion)
	}
	byTopic(partitions, func(t id.Topic, numbers []int32) {
		if name, ok := cat.TopicName(t); ok {
			a.Topics = append(a.Topics, kmsg.ConsumerMemberAssignmentTopic{Topic: name, Partitions: numbers})
		}
	})
	return a.AppendTo(nil)
}

// readAssignment reads the partitions that a classic leader assigned to a member. It fails if the bytes are malformed, or have data of a
// custom assignor, which would be lost.
func readAssignment(assignment []byte, cat Catalogue) (map[id.TopicPartition]bool, string) {
	out := make(map[id.TopicPartition]bool)
	if len(assignment) == 0 {
		return out, ""
	}
	var a kmsg.ConsumerMemberAssignment
	if err := a.ReadFrom(assignment); err != nil {
		return nil, "the embedded consumer protocol is malformed"
	}
	if len(a.UserData) > 0 {
		return nil, "an unsupported custom assignor is in use"
	}
	for _, t := range a.Topics {
		topic, _, ok := cat.Topic(t.Topic)
		if !ok {
			continue
		}
		for _, p := range t.Partitions {
			if p >= 0 {
				out[id.TopicPartition{Topic: topic, Partition: p}] = true
			}
		}
	}
	return out, ""
}
