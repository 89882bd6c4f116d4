package txn

import (
	"cmp"
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// DescribeProducers, key 61, version 0 (KIP-664). A partition's leader answers it in Kafka; here any agent forwards it,
// since the producers' state is the state machine's.

func (c *call) describeProducers(ctx context.Context, in *kmsg.DescribeProducersRequest) (*kmsg.DescribeProducersResponse, error) {
	out := kmsg.NewPtrDescribeProducersResponse()
	out.Topics = []kmsg.DescribeProducersResponseTopic{}
	var fault error
	_, err := c.owner.ReadFrozen(func(s *metadata.State) { // a partition may have thousands of producers
		d := producerDescriber{state: s, known: map[id.TopicPartition][]activeProducer{}, size: session.AnswerOf(ctx)}
		for i := range in.Topics {
			var t kmsg.DescribeProducersResponseTopic
			if t, fault = d.topic(&in.Topics[i]); fault != nil {
				return
			}
			out.Topics = append(out.Topics, t)
		}
	})
	return out, cmp.Or(err, fault)
}

type activeProducer = kmsg.DescribeProducersResponseTopicPartitionActiveProducer

// minActiveProducer is the minimum size of a producer in an answer, in bytes.
const minActiveProducer = 37

// producerDescriber answers the topics of one request. A partition that the request names several times is read once and answered each
// time (KafkaApis.handleDescribeProducersRequest).
type producerDescriber struct {
	state *metadata.State
	known map[id.TopicPartition][]activeProducer
	size  *session.Answer
}

// topic answers one topic. Its error is that of session.Answer.Add.
func (d *producerDescriber) topic(in *kmsg.DescribeProducersRequestTopic) (kmsg.DescribeProducersResponseTopic, error) {
	out := kmsg.NewDescribeProducersResponseTopic()
	out.Topic = in.Topic
	topic, found := d.state.TopicByName(in.Topic)
	for _, n := range in.Partitions {
		p := kmsg.NewDescribeProducersResponseTopicPartition()
		p.Partition, p.ActiveProducers = n, []activeProducer{}
		switch {
		case !found:
			p.ErrorCode = kerr.UnknownTopicOrPartition.Code
			p.ErrorMessage = kmsg.StringPtr(kerr.UnknownTopicOrPartition.Description)
		case n < 0 || n >= topic.Partitions:
			p.ErrorCode = kerr.UnknownTopicOrPartition.Code
		default:
			p.ActiveProducers = d.producers(id.TopicPartition{Topic: topic.ID, Partition: n})
			if err := d.size.Add(len(p.ActiveProducers) * minActiveProducer); err != nil {
				return out, err
			}
		}
		out.Partitions = append(out.Partitions, p)
	}
	return out, nil
}

// producers returns the producers of a partition that exists.
func (d *producerDescriber) producers(tp id.TopicPartition) []activeProducer {
	if all, twice := d.known[tp]; twice {
		return all
	}
	all := []activeProducer{}
	if producers, ok := d.state.Producers(tp); ok {
		for info := range producers {
			a := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
			a.ProducerID, a.ProducerEpoch, a.LastSequence = info.ProducerID, int32(info.Epoch), info.LastSequence
			a.LastTimestamp, a.CoordinatorEpoch = info.LastTimestampMs, info.CoordinatorEpoch
			a.CurrentTxnStartOffset = info.TransactionStart
			all = append(all, a)
		}
	}
	d.known[tp] = all
	return all
}
