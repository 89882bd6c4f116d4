package txn

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// DescribeProducers, key 61, version 0 (KIP-664). A partition's leader answers it in Kafka; here any agent forwards it,
// since the producers' state is the state machine's.

func (c *call) describeProducers(_ context.Context, in *kmsg.DescribeProducersRequest) (*kmsg.DescribeProducersResponse, error) {
	out := kmsg.NewPtrDescribeProducersResponse()
	out.Topics = []kmsg.DescribeProducersResponseTopic{}
	_, err := c.owner.ReadFrozen(func(s *metadata.State) { // a partition may have thousands of producers
		for i := range in.Topics {
			out.Topics = append(out.Topics, producersOf(s, &in.Topics[i]))
		}
	})
	return out, err
}

func producersOf(s *metadata.State, in *kmsg.DescribeProducersRequestTopic) kmsg.DescribeProducersResponseTopic {
	out := kmsg.NewDescribeProducersResponseTopic()
	out.Topic = in.Topic
	topic, found := s.TopicByName(in.Topic)
	for _, n := range in.Partitions {
		p := kmsg.NewDescribeProducersResponseTopicPartition()
		p.Partition, p.ActiveProducers = n, []kmsg.DescribeProducersResponseTopicPartitionActiveProducer{}
		switch {
		case !found:
			p.ErrorCode = kerr.UnknownTopicOrPartition.Code
			p.ErrorMessage = kmsg.StringPtr(kerr.UnknownTopicOrPartition.Description)
		case n < 0 || n >= topic.Partitions:
			p.ErrorCode = kerr.UnknownTopicOrPartition.Code
		default:
			addProducers(s, id.TopicPartition{Topic: topic.ID, Partition: n}, &p)
		}
		out.Partitions = append(out.Partitions, p)
	}
	return out
}

func addProducers(s *metadata.State, tp id.TopicPartition, p *kmsg.DescribeProducersResponseTopicPartition) {
	producers, ok := s.Producers(tp)
	if !ok {
		return
	}
	for info := range producers {
		a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		a.ProducerID, a.ProducerEpoch, a.LastSequence = info.ProducerID, int32(info.Epoch), info.LastSequence
		a.LastTimestamp, a.CoordinatorEpoch = info.LastTimestampMs, info.CoordinatorEpoch
		a.CurrentTxnStartOffset = info.TransactionStart
		p.ActiveProducers = append(p.ActiveProducers, a)
	}
}
