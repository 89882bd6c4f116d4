package admin

import (
	"context"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
)

// DescribeTopicPartitions, key 75, version 0 (KIP-966). Topics are answered in the order of names, partition by
// partition up to a limit; a cursor tells where the next request goes on.

// maxResponsePartitions bounds the partitions of one answer (max.request.partition.size.limit).
const maxResponsePartitions = 2000

func (c *call) describeTopicPartitions(_ context.Context, in *kmsg.DescribeTopicPartitionsRequest) (*kmsg.DescribeTopicPartitionsResponse, error) {
	if badCursor(in) {
		return refusedCursor(in), nil
	}
	out := kmsg.NewPtrDescribeTopicPartitionsResponse()
	out.Topics = []kmsg.DescribeTopicPartitionsResponseTopic{}
	err := c.read(func(s *metadata.State) error {
		p := partitionPage{out: out, left: max(1, min(maxResponsePartitions, int(in.ResponsePartitionLimit))), cursor: in.Cursor}
		p.view = viewOf(s, c.forward)
		p.fill(s, in)
		return nil
	})
	return out, err
}

// badCursor tells that a cursor is not one that this API gave for the topics asked about.
func badCursor(in *kmsg.DescribeTopicPartitionsRequest) bool {
	if in.Cursor == nil {
		return false
	}
	named := func(t kmsg.DescribeTopicPartitionsRequestTopic) bool { return t.Topic == in.Cursor.Topic }
	return in.Cursor.Partition < 0 || len(in.Topics) > 0 && !slices.ContainsFunc(in.Topics, named)
}

// refusedCursor is how Kafka refuses: the API has no error of its own.
func refusedCursor(in *kmsg.DescribeTopicPartitionsRequest) *kmsg.DescribeTopicPartitionsResponse {
	out := kmsg.NewPtrDescribeTopicPartitionsResponse()
	for _, asked := range in.Topics {
		t := kmsg.NewDescribeTopicPartitionsResponseTopic()
		t.Topic, t.ErrorCode = kmsg.StringPtr(asked.Topic), kerr.InvalidRequest.Code
		out.Topics = append(out.Topics, t)
	}
	return out
}

// partitionPage fills one answer.
type partitionPage struct {
	out    *kmsg.DescribeTopicPartitionsResponse
	view   clientView
	left   int // partitions still allowed
	cursor *kmsg.DescribeTopicPartitionsRequestCursor
}

func (p *partitionPage) fill(s *metadata.State, in *kmsg.DescribeTopicPartitionsRequest) {
	if len(in.Topics) == 0 {
		for t := range shownTopics(s) {
			if !p.before(t.Name) && !p.topic(t.Name, t) {
				return
			}
		}
		return
	}
	names := make([]string, 0, len(in.Topics))
	for _, t := range in.Topics {
		if !p.before(t.Topic) {
			names = append(names, t.Topic)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		t, _ := shownTopic(s, name)
		if !p.topic(name, t) {
			return
		}
	}
}

// before tells whether a topic was answered by an earlier page.
func (p *partitionPage) before(name string) bool { return p.cursor != nil && name < p.cursor.Topic }

// topic answers one topic, nil if it does not exist; false when the page is full.
func (p *partitionPage) topic(name string, t *metadata.Topic) bool {
	if p.left == 0 {
		p.next(name, 0)
		return false
	}
	out := kmsg.NewDescribeTopicPartitionsResponseTopic()
	out.Topic, out.AuthorizedOperations = &name, allTopicOperations // as in Kafka, also of one that does not exist
	out.Partitions = []kmsg.DescribeTopicPartitionsResponseTopicPartition{}
	if t == nil {
		out.ErrorCode = kerr.UnknownTopicOrPartition.Code
		if checkTopicName(name) != nil {
			out.ErrorCode = kerr.InvalidTopicException.Code
		}
		p.out.Topics = append(p.out.Topics, out)
		return true
	}
	out.TopicID, out.IsInternal = t.ID, internalTopics[name]
	from := int32(0)
	if p.cursor != nil && p.cursor.Topic == name {
		from = min(p.cursor.Partition, t.Partitions)
	}
	to := min(t.Partitions, from+int32(p.left))
	replicas := p.view.replicas(t)
	for i := from; i < to; i++ {
		of := replicas.Of(i)
		out.Partitions = append(out.Partitions, p.partition(i, of[:min(len(of), int(t.ReplicationFactor))]))
	}
	p.left -= int(to - from)
	p.out.Topics = append(p.out.Topics, out)
	if to < t.Partitions {
		p.next(name, to)
		return false
	}
	return true
}

func (p *partitionPage) partition(number int32, replicas []int32) kmsg.DescribeTopicPartitionsResponseTopicPartition {
	out := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
	out.Partition, out.LeaderID, out.LeaderEpoch = number, -1, p.view.epoch
	if len(replicas) > 0 {
		out.LeaderID = replicas[0]
	} else {
		out.ErrorCode = kerr.LeaderNotAvailable.Code
	}
	out.Replicas, out.ISR = replicas, replicas
	out.EligibleLeaderReplicas, out.LastKnownELR = []int32{}, []int32{}
	return out
}

func (p *partitionPage) next(topic string, partition int32) {
	cursor := kmsg.NewDescribeTopicPartitionsResponseNextCursor()
	cursor.Topic, cursor.Partition = topic, partition
	p.out.NextCursor = &cursor
}
