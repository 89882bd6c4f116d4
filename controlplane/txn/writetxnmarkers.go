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
	producers := make(map[int64]int) // index in out.Markers
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
		n, ok := producers[m.ProducerID]
		if !ok { // markers of a producer stand together, as in Kafka's answer
			n = len(out.Markers)
			producers[m.ProducerID] = n
			out.Markers = append(out.Markers, kmsg.NewWriteTxnMarkersResponseMarker())
			out.Markers[n].ProducerID = m.ProducerID
		}
		addResults(&out.Markers[n], topics, codes)
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

// addResults adds the results of one marker to those of its producer.
func addResults(m *kmsg.WriteTxnMarkersResponseMarker, topics []named, codes []int16) {
	for _, t := range topics {
		topic := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
		topic.Topic = t.topic
		for _, p := range t.partitions {
			r := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
			r.Partition, r.ErrorCode = p, codes[0]
			codes = codes[1:]
			topic.Partitions = append(topic.Partitions, r)
		}
		m.Topics = append(m.Topics, topic)
	}
}
