package admin

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
)

// ElectLeaders, key 43, versions 0-2 (KIP-183, KIP-460).
//
//	1  names the kind of election, answers a top-level error
//	2  is flexible
//
// There are no elections: whoever is shown as leader is the one preferred. So the answer is that of a cluster where
// every leader is (ReplicationControlManager.electLeaders): ELECTION_NOT_NEEDED for what is named, and for a request
// about all partitions the topics, without partitions.

// maxElectionType is the largest kind: 0 preferred, 1 unclean.
const maxElectionType = 1

func (c *call) electLeaders(_ context.Context, in *kmsg.ElectLeadersRequest) (*kmsg.ElectLeadersResponse, error) {
	out := kmsg.NewPtrElectLeadersResponse()
	if in.ElectionType < 0 || in.ElectionType > maxElectionType {
		fault := failed(kerr.InvalidRequest, fmt.Sprintf("Unknown election type %d", in.ElectionType))
		out.ErrorCode = fault.code()
		for _, t := range in.Topics {
			out.Topics = append(out.Topics, electedTopic(t, func(int32) *apiError { return fault }))
		}
		return out, nil
	}
	_, err := c.owner.ReadFrozen(func(s *metadata.State) {
		if in.Topics == nil {
			for t := range s.Topics() {
				out.Topics = append(out.Topics, electedTopic(kmsg.ElectLeadersRequestTopic{Topic: t.Name}, nil))
			}
			return
		}
		for _, t := range in.Topics {
			topic, ok := s.TopicByName(t.Topic)
			out.Topics = append(out.Topics, electedTopic(t, func(partition int32) *apiError {
				switch {
				case !ok:
					return failed(kerr.UnknownTopicOrPartition, "No such topic as "+t.Topic)
				case partition < 0 || partition >= topic.Partitions:
					return failed(kerr.UnknownTopicOrPartition, fmt.Sprintf("No such partition as %s-%d", t.Topic, partition))
				}
				return plain(kerr.ElectionNotNeeded)
			}))
		}
	})
	return out, err
}

func electedTopic(in kmsg.ElectLeadersRequestTopic, result func(partition int32) *apiError) kmsg.ElectLeadersResponseTopic {
	t := kmsg.NewElectLeadersResponseTopic()
	t.Topic = in.Topic
	for _, partition := range in.Partitions {
		fault := result(partition)
		p := kmsg.NewElectLeadersResponseTopicPartition()
		p.Partition, p.ErrorCode, p.ErrorMessage = partition, fault.code(), fault.text()
		t.Partitions = append(t.Partitions, p)
	}
	return t
}
