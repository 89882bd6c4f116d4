package txn

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
)

// WriteTxnMarkers, key 27, versions 1-2. Kafka's coordinators send it to partition leaders; here it is for operators, who
// end a hanging transaction with it (KIP-664, kafka-transactions.sh abort).
//
//	2  names the transaction's protocol, by which Kafka checks the epoch (KIP-1228)

func (c *call) writeTxnMarkers(ctx context.Context, in *kmsg.WriteTxnMarkersRequest) (*kmsg.WriteTxnMarkersResponse, error) {
	out := kmsg.NewPtrWriteTxnMarkersResponse()
	out.Markers = []kmsg.WriteTxnMarkersResponseMarker{}
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
		addMarker(out, m.ProducerID, topics, codes)
	}
	return out, nil
}

// writeMarkers ends a producer's transaction in the partitions that exist, and gives each partition's error code.
func (c *call) writeMarkers(ctx context.Context, m *kmsg.WriteTxnMarkersRequestMarker, topics []named) ([]int16, error) {
	r, err := c.resolve(topics)
	if err != nil {
		return nil, err
	}
	command := &metadata.WriteMarkers{
		ProducerID: m.ProducerID, Epoch: m.ProducerEpoch, Commit: m.Committed, CoordinatorEpoch: m.CoordinatorEpoch,
	}
	codes := repeated(kerr.UnknownTopicOrPartition.Code, len(r.ids))
	var at []int // of the command's partitions in the request
	for i, known := range r.known {
		if known {
			command.Partitions, at = append(command.Partitions, r.ids[i]), append(at, i)
		}
	}
	if len(at) == 0 {
		return codes, nil
	}
	result, _, err := c.owner.Propose(ctx, command)
	if err != nil {
		return nil, err
	}
	results, _ := result.Value.([]error)
	for k, i := range at {
		err := result.Err
		if err == nil && k < len(results) {
			err = results[k]
		}
		codes[i] = codeFor(err, 0, 1) // a leader says INVALID_PRODUCER_EPOCH, in every version
	}
	return codes, nil
}

// addMarker adds one marker's results; those of the same producer stand together, as in Kafka's answer.
func addMarker(out *kmsg.WriteTxnMarkersResponse, producer int64, topics []named, codes []int16) {
	var m *kmsg.WriteTxnMarkersResponseMarker
	for i := range out.Markers {
		if out.Markers[i].ProducerID == producer {
			m = &out.Markers[i]
		}
	}
	if m == nil {
		out.Markers = append(out.Markers, kmsg.NewWriteTxnMarkersResponseMarker())
		m = &out.Markers[len(out.Markers)-1]
		m.ProducerID = producer
	}
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
