package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
)

// ElectLeaders, key 43, versions 0-2 (KIP-183, KIP-460).
//
//	1  names the kind of election, answers a top-level error
//	2  is flexible
//
// There are no elections: the leader shown is the preferred one. So the answer is that of a cluster where every leader is
// (ReplicationControlManager.electLeaders): ELECTION_NOT_NEEDED for each partition named, and for a request about all partitions
// the topics, without partitions.

// maxElectionType is the largest kind: 0 preferred, 1 unclean.
const maxElectionType = 1

func (c *call) electLeaders(ctx context.Context, in *kmsg.ElectLeadersRequest) (*kmsg.ElectLeadersResponse, error) {
	out := kmsg.NewPtrElectLeadersResponse()
	size := session.AnswerOf(ctx)
	add := func(in kmsg.ElectLeadersRequestTopic, result func(partition int32) *apiError) error {
		t, err := electedTopic(in, size, result)
		out.Topics = append(out.Topics, t)
		return err
	}
	if in.ElectionType < 0 || in.ElectionType > maxElectionType {
		fault := failed(kerr.InvalidRequest, fmt.Sprintf("Unknown election type %d", in.ElectionType))
		out.ErrorCode = fault.code()
		for _, t := range in.Topics {
			if err := add(t, func(int32) *apiError { return fault }); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	err := c.read(func(s *metadata.State) error {
		if in.Topics == nil {
			for t := range s.Topics() {
				if err := add(kmsg.ElectLeadersRequestTopic{Topic: t.Name}, nil); err != nil {
					return err
				}
			}
			return nil
		}
		for _, t := range in.Topics {
			topic, ok := s.TopicByName(t.Topic)
			absent := failed(kerr.UnknownTopicOrPartition, "No such topic as "+t.Topic)
			err := add(t, func(partition int32) *apiError {
				switch {
				case !ok:
					return absent
				case partition < 0 || partition >= topic.Partitions:
					return failed(kerr.UnknownTopicOrPartition, fmt.Sprintf("No such partition as %s-%d", t.Topic, partition))
				}
				return plain(kerr.ElectionNotNeeded)
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

// electedTopic answers one topic. size counts the names and messages.
func electedTopic(
	in kmsg.ElectLeadersRequestTopic, size *session.Answer, result func(partition int32) *apiError,
) (kmsg.ElectLeadersResponseTopic, error) {
	t := kmsg.NewElectLeadersResponseTopic()
	t.Topic = in.Topic
	if err := size.Add(len(t.Topic)); err != nil {
		return t, err
	}
	for _, partition := range in.Partitions {
		fault := result(partition)
		if err := size.Add(fault.bytes()); err != nil {
			return t, err
		}
		p := kmsg.NewElectLeadersResponseTopicPartition()
		p.Partition, p.ErrorCode, p.ErrorMessage = partition, fault.code(), fault.text()
		t.Partitions = append(t.Partitions, p)
	}
	return t, nil
}
