package kafka

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What the transaction APIs answer while the control plane cannot be reached. Producers repeat a request on
// COORDINATOR_LOAD_IN_PROGRESS without looking for another coordinator; admin clients ask again on it, and on
// NOT_LEADER_OR_FOLLOWER where they asked a partition's leader.

var loading = kerr.CoordinatorLoadInProgress.Code

func unavailableInitProducerID(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrInitProducerIDResponse()
	out.ErrorCode, out.ProducerID, out.ProducerEpoch = loading, -1, -1
	return out
}

func unavailableAddPartitionsToTxn(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrAddPartitionsToTxnResponse()
	req := in.(*kmsg.AddPartitionsToTxnRequest)
	for _, topic := range req.Topics {
		t := kmsg.NewAddPartitionsToTxnResponseTopic()
		t.Topic = topic.Topic
		for _, partition := range topic.Partitions {
			p := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			p.Partition, p.ErrorCode = partition, loading
			t.Partitions = append(t.Partitions, p)
		}
		out.Topics = append(out.Topics, t)
	}
	if req.Version >= 4 {
		out.ErrorCode = loading
	}
	return out
}

func unavailableAddOffsetsToTxn(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrAddOffsetsToTxnResponse()
	out.ErrorCode = loading
	return out
}

func unavailableEndTxn(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrEndTxnResponse()
	out.ErrorCode, out.ProducerID, out.ProducerEpoch = loading, -1, -1
	return out
}

func unavailableWriteTxnMarkers(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrWriteTxnMarkersResponse()
	for _, marker := range in.(*kmsg.WriteTxnMarkersRequest).Markers {
		m := kmsg.NewWriteTxnMarkersResponseMarker()
		m.ProducerID = marker.ProducerID
		for _, topic := range marker.Topics {
			t := kmsg.NewWriteTxnMarkersResponseMarkerTopic()
			t.Topic = topic.Topic
			for _, partition := range topic.Partitions {
				p := kmsg.NewWriteTxnMarkersResponseMarkerTopicPartition()
				p.Partition, p.ErrorCode = partition, kerr.NotLeaderForPartition.Code
				t.Partitions = append(t.Partitions, p)
			}
			m.Topics = append(m.Topics, t)
		}
		out.Markers = append(out.Markers, m)
	}
	return out
}

func unavailableDescribeProducers(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrDescribeProducersResponse()
	for _, topic := range in.(*kmsg.DescribeProducersRequest).Topics {
		t := kmsg.NewDescribeProducersResponseTopic()
		t.Topic = topic.Topic
		for _, partition := range topic.Partitions {
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition, p.ErrorCode, p.ErrorMessage = partition, kerr.NotLeaderForPartition.Code, kmsg.StringPtr(unavailableMessage)
			t.Partitions = append(t.Partitions, p)
		}
		out.Topics = append(out.Topics, t)
	}
	return out
}

func unavailableDescribeTransactions(in kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrDescribeTransactionsResponse()
	for _, name := range in.(*kmsg.DescribeTransactionsRequest).TransactionalIDs {
		t := kmsg.NewDescribeTransactionsResponseTransactionState()
		t.TransactionalID, t.ErrorCode = name, loading
		out.TransactionStates = append(out.TransactionStates, t)
	}
	return out
}

func unavailableListTransactions(kmsg.Request) kmsg.Response {
	out := kmsg.NewPtrListTransactionsResponse()
	out.ErrorCode = loading
	return out
}
