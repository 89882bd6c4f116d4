package clients

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// sweptTransaction is the transactional id of the sweeps, sweptMarker a producer that has nothing but markers.
const (
	sweptTransaction = "swept"
	sweptMarker      = 1 << 40
)

// sweepsOfTransactions go in the order of keys: each InitProducerId tells the producer that the next ones are of, which
// then adds partitions and a group, and ends what it began.
func sweepsOfTransactions() map[int16]sweep {
	id, epoch := int64(-1), int16(-1)
	return map[int16]sweep{
		int16(kmsg.InitProducerID): {
			func(int16, map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrInitProducerIDRequest()
				req.TransactionalID, req.TransactionTimeoutMillis = kmsg.StringPtr(sweptTransaction), 60_000
				return req
			},
			func(r kmsg.Response) int16 {
				out := r.(*kmsg.InitProducerIDResponse)
				id, epoch = out.ProducerID, out.ProducerEpoch
				return out.ErrorCode
			},
		},
		int16(kmsg.AddPartitionsToTxn): {
			func(int16, map[string][16]byte) kmsg.Request {
				return addPartitions(sweptTransaction, id, epoch, "swept", 0)
			},
			func(r kmsg.Response) int16 {
				out := r.(*kmsg.AddPartitionsToTxnResponse)
				if out.Version < 4 {
					return out.Topics[0].Partitions[0].ErrorCode
				}
				return out.Transactions[0].Topics[0].Partitions[0].ErrorCode
			},
		},
		int16(kmsg.AddOffsetsToTxn): {
			func(int16, map[string][16]byte) kmsg.Request {
				req := kmsg.NewPtrAddOffsetsToTxnRequest()
				req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = sweptTransaction, id, epoch, "swept"
				return req
			},
			func(r kmsg.Response) int16 { return r.(*kmsg.AddOffsetsToTxnResponse).ErrorCode },
		},
		int16(kmsg.EndTxn): {
			func(v int16, _ map[string][16]byte) kmsg.Request {
				// Versions below 5 repeat the first one's commit; 5 aborts what is empty, which is no error there.
				return endTxn(sweptTransaction, id, epoch, v < 5)
			},
			func(r kmsg.Response) int16 { return r.(*kmsg.EndTxnResponse).ErrorCode },
		},
		int16(kmsg.WriteTxnMarkers): {
			func(int16, map[string][16]byte) kmsg.Request { return abortMarker(sweptMarker, 0, "swept", 0) },
			func(r kmsg.Response) int16 {
				return r.(*kmsg.WriteTxnMarkersResponse).Markers[0].Topics[0].Partitions[0].ErrorCode
			},
		},
		int16(kmsg.DescribeProducers): {
			func(int16, map[string][16]byte) kmsg.Request { return describeProducers("swept", 0) },
			func(r kmsg.Response) int16 {
				return r.(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0].ErrorCode
			},
		},
		int16(kmsg.DescribeTransactions): {
			func(int16, map[string][16]byte) kmsg.Request { return describeTransactions(sweptTransaction) },
			func(r kmsg.Response) int16 {
				return r.(*kmsg.DescribeTransactionsResponse).TransactionStates[0].ErrorCode
			},
		},
		int16(kmsg.ListTransactions): {
			func(int16, map[string][16]byte) kmsg.Request { return kmsg.NewPtrListTransactionsRequest() },
			func(r kmsg.Response) int16 { return r.(*kmsg.ListTransactionsResponse).ErrorCode },
		},
	}
}

// addPartitions asks for one partition, in both places that versions have for it.
func addPartitions(name string, id int64, epoch int16, topic string, partition int32) *kmsg.AddPartitionsToTxnRequest {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch = name, id, epoch
	req.Topics = []kmsg.AddPartitionsToTxnRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
	req.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{
		TransactionalID: name, ProducerID: id, ProducerEpoch: epoch,
		Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: topic, Partitions: []int32{partition}}},
	}}
	return req
}

func endTxn(name string, id int64, epoch int16, commit bool) *kmsg.EndTxnRequest {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = name, id, epoch, commit
	return req
}

func abortMarker(id int64, epoch int16, topic string, partition int32) *kmsg.WriteTxnMarkersRequest {
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Markers = []kmsg.WriteTxnMarkersRequestMarker{{
		ProducerID: id, ProducerEpoch: epoch,
		Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic, Partitions: []int32{partition}}},
	}}
	return req
}

func describeProducers(topic string, partition int32) *kmsg.DescribeProducersRequest {
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: []int32{partition}}}
	return req
}

func describeTransactions(name string) *kmsg.DescribeTransactionsRequest {
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = []string{name}
	return req
}
