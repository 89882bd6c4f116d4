package txn

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
	"github.com/freshet-io/freshet/metadata/id"
)

// WriteTxnMarkers, key 27, versions 1-2. Kafka's coordinators send it to partition leaders; operators end
// hanging transactions with it (KIP-664, kafka-transactions.sh abort).
//
//	2  names the transaction's protocol, by which Kafka checks the epoch (KIP-1228)

func (c *call) writeTxnMarkers(ctx context.Context, in *kmsg.WriteTxnMarkersRequest) (*kmsg.WriteTxnMarkersResponse, error) {
	out := kmsg.NewPtrWriteTxnMarkersResponse()
	out.Markers = []kmsg.WriteTxnMarkersResponseMarker{}
	answer := markerAnswer{out: out, producers: map[int64]int{}, topics: map[producerTopic]int{}, partitions: map[producerPartition]int{}}
	for i := range in.Markers {
		m := &in.Markers[i]
		topics := make([]named, len(m.Topics))
		for k, t := range m.Topics {
			topics[k] = named{t.Topic, t.Partitions}
		}
		codes, err := c.writeMarkers(ctx, m, topics)
		if err != nil {
			return nil, err
		}
		answer.add(m.ProducerID, topics, codes)
	}
	return out, nil
}

// writeMarkers ends a producer's transaction in the partitions that exist, and returns each partition's error code. A partition that the
// request names twice gets one marker, as in Kafka (KafkaApis.handleWriteTxnMarkersRequest collects them in a map).
func (c *call) writeMarkers(ctx context.Context, m *kmsg.WriteTxnMarkersRequestMarker, topics []named) ([]int16, error) {
	r, err := c.resolve(topics)
	if err != nil {
		return nil, err
	}
	command := &metadata.WriteMarkers{
		ProducerID: m.ProducerID, Epoch: m.ProducerEpoch, Commit: m.Committed, CoordinatorEpoch: m.CoordinatorEpoch,
	}
	codes := repeated(kerr.UnknownTopicOrPartition.Code, len(r.ids))
	places := make(map[id.TopicPartition]int) // in the command's partitions
	for i, tp := range r.ids {
		if _, twice := places[tp]; r.known[i] && !twice {
			places[tp] = len(command.Partitions)
			command.Partitions = append(command.Partitions, tp)
		}
	}
	if len(places) == 0 {
		return codes, nil
	}
	result, _, err := c.owner.Propose(ctx, command)
	if err != nil {
		return nil, err
	}
	results, _ := result.Value.([]error)
	for i, tp := range r.ids {
		if !r.known[i] {
			continue
		}
		err := result.Err
		if k := places[tp]; err == nil && k < len(results) {
			err = results[k]
		}
		codes[i] = codeFor(err, 0, 1) // a leader says INVALID_PRODUCER_EPOCH, in every version
	}
	return codes, nil
}

// markerAnswer builds the answer as Kafka does from a map of producers, topics and partitions (WriteTxnMarkersResponse): it names each
// of them once, and of several results of one partition the last.
type markerAnswer struct {
	out        *kmsg.WriteTxnMarkersResponse
	producers  map[int64]int             // index in out.Markers
	topics     map[producerTopic]int     // index in Topics
	partitions map[producerPartition]int // index in Partitions
}

type producerTopic struct {
	producer int64
	topic    string
}

type producerPartition struct {
	producerTopic
	partition int32
}

// add adds the results of one marker.
func (a *markerAnswer) add(producer int64, topics []named, codes []int16) {
	n, ok := a.producers[producer]
	if !ok {
		n = len(a.out.Markers)
		a.producers[producer] = n
		a.out.Markers = append(a.out.Markers, kmsg.NewWriteTxnMarkersResponseMarker())
		a.out.Markers[n].ProducerID = producer
	}
	for _, t := range topics {
		for _, p := range t.partitions {
			a.addPartition(&a.out.Markers[n], producerPartition{producerTopic{producer, t.topic}, p}, codes[0])
			codes = codes[1:]
		}
	}
}

func (a *markerAnswer) addPartition(m *kmsg.WriteTxnMarkersResponseMarker, p producerPartition, code int16) {
	t, ok := a.topics[p.producerTopic]
	if !ok {
		t = len(m.Topics)
		a.topics[p.producerTopic] = t
		topic := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
		topic.Topic = p.topic
		m.Topics = append(m.Topics, topic)
	}
	topic := &m.Topics[t]
	n, ok := a.partitions[p]
	if !ok {
		n = len(topic.Partitions)
		a.partitions[p] = n
		r := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
		r.Partition = p.partition
		topic.Partitions = append(topic.Partitions, r)
	}
	topic.Partitions[n].ErrorCode = code
}
