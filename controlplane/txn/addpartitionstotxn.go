package txn

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
)

// AddPartitionsToTxn, key 24, versions 0-5. Clients send 0-3 and are of the first protocol; 4 and 5 are those of Kafka's
// brokers, of the second one.
//
//	2  answers PRODUCER_FENCED (KIP-588)
//	3  is flexible
//	4  batches transactions, and may only verify that partitions are in them (KIP-890)
//	5  may answer TRANSACTION_ABORTABLE
//
// One unknown partition fails its transaction's others with OPERATION_NOT_ATTEMPTED. A partition that the request names several times is
// added and answered once (KafkaApis.handleAddPartitionsToTxnRequest).

const (
	fencedSinceAddPartitions = 2
	batchedAddPartitions     = 4
)

func (c *call) addPartitionsToTxn(ctx context.Context, in *kmsg.AddPartitionsToTxnRequest) (*kmsg.AddPartitionsToTxnResponse, error) {
	out := kmsg.NewPtrAddPartitionsToTxnResponse()
	if in.Version < batchedAddPartitions {
		topics := make([]named, len(in.Topics))
		for i, t := range in.Topics {
			topics[i] = named{t.Topic, t.Partitions}
		}
		topics = merged(topics)
		ref := c.ref(in.TransactionalID, in.ProducerID, in.ProducerEpoch, metadata.ProtocolOne)
		results, err := c.addPartitions(ctx, ref, topics, in.Version)
		out.Topics = partitionResults(topics, results)
		return out, err
	}
	out.Transactions = make([]kmsg.AddPartitionsToTxnResponseTransaction, 0, len(in.Transactions))
	for i := range in.Transactions {
		t, err := c.addPartitionsOf(ctx, &in.Transactions[i], in.Version)
		if err != nil {
			return nil, err
		}
		out.Transactions = append(out.Transactions, t)
	}
	return out, nil
}

// addPartitionsOf answers one transaction of a batched request.
func (c *call) addPartitionsOf(ctx context.Context, in *kmsg.AddPartitionsToTxnRequestTransaction, version int16,
) (out kmsg.AddPartitionsToTxnResponseTransaction, err error) {
	topics := make([]named, len(in.Topics))
	for i, t := range in.Topics {
		topics[i] = named{t.Topic, t.Partitions}
	}
	topics = merged(topics)
	var results []int16
	ref := c.ref(in.TransactionalID, in.ProducerID, in.ProducerEpoch, metadata.ProtocolTwo)
	if in.VerifyOnly {
		results, err = c.verifyPartitions(ref, topics)
	} else {
		results, err = c.addPartitions(ctx, ref, topics, version)
	}
	out = kmsg.NewAddPartitionsToTxnResponseTransaction()
	out.TransactionalID = in.TransactionalID
	for _, t := range partitionResults(topics, results) {
		topic := kmsg.NewAddPartitionsToTxnResponseTransactionTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			r := kmsg.NewAddPartitionsToTxnResponseTransactionTopicPartition()
			r.Partition, r.ErrorCode = p.Partition, p.ErrorCode
			topic.Partitions = append(topic.Partitions, r)
		}
		out.Topics = append(out.Topics, topic)
	}
	return out, err
}

// addPartitions adds partitions to a transaction and returns the error code of each.
func (c *call) addPartitions(ctx context.Context, ref metadata.TransactionRef, topics []named, version int16) ([]int16, error) {
	r, err := c.resolve(topics)
	switch {
	case err != nil:
		return nil, err
	case !r.all:
		return notAttempted(&r), nil
	case ref.TransactionalID == "":
		return repeated(kerr.InvalidRequest.Code, len(r.ids)), nil
	}
	result, _, err := c.owner.Propose(ctx, &metadata.AddPartitions{TransactionRef: ref, Partitions: r.ids})
	if err != nil {
		return nil, err
	}
	if result.Err != nil {
		return repeated(codeFor(result.Err, version, fencedSinceAddPartitions), len(r.ids)), nil //nolint:nilerr // the codes say it
	}
	errs, _ := result.Value.([]error)
	return codesOf(errs), nil
}

// verifyPartitions returns the error code of each partition, 0 if it is in the transaction
// (TransactionCoordinator.handleVerifyPartitionsInTransaction).
func (c *call) verifyPartitions(ref metadata.TransactionRef, topics []named) ([]int16, error) {
	r, err := c.resolve(topics)
	switch {
	case err != nil:
		return nil, err
	case !r.all:
		return notAttempted(&r), nil
	case ref.TransactionalID == "":
		return repeated(kerr.InvalidRequest.Code, len(r.ids)), nil
	}
	var errs []error
	_, readErr := c.owner.Read(func(s *metadata.State) { errs, err = s.VerifyPartitions(&ref, r.ids) })
	switch {
	case readErr != nil:
		return nil, readErr
	case err != nil:
		return repeated(code(err), len(r.ids)), nil //nolint:nilerr // the codes say it
	}
	return codesOf(errs), nil
}

func codesOf(errs []error) []int16 {
	results := make([]int16, len(errs))
	for i, err := range errs {
		results[i] = code(err)
	}
	return results
}

// notAttempted is the answer where some partition does not exist.
func notAttempted(r *resolved) []int16 {
	results := make([]int16, len(r.ids))
	for i, known := range r.known {
		results[i] = kerr.UnknownTopicOrPartition.Code
		if known {
			results[i] = kerr.OperationNotAttempted.Code
		}
	}
	return results
}

func repeated(code int16, n int) []int16 {
	results := make([]int16, n)
	for i := range results {
		results[i] = code
	}
	return results
}

// partitionResults lays codes out as the topics of a response; none if there are no codes.
func partitionResults(topics []named, codes []int16) []kmsg.AddPartitionsToTxnResponseTopic {
	out := make([]kmsg.AddPartitionsToTxnResponseTopic, 0, len(topics))
	for _, t := range topics {
		topic := kmsg.NewAddPartitionsToTxnResponseTopic()
		topic.Topic = t.topic
		for _, p := range t.partitions {
			if len(codes) == 0 {
				return out
			}
			r := kmsg.NewAddPartitionsToTxnResponseTopicPartition()
			r.Partition, r.ErrorCode = p, codes[0]
			topic.Partitions = append(topic.Partitions, r)
			codes = codes[1:]
		}
		out = append(out, topic)
	}
	return out
}
