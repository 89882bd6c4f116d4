package txn

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata"
)

// DescribeTransactions, key 65, version 0 (KIP-664).
//
// Kafka lists the partition of __consumer_offsets that a group's offsets go to; tools read it, so it is listed here too.

// manyTransactions is from how many on they are read from a frozen state. Below that it is not worth it: agents ask for
// one with each transactional producer that they meet.
const manyTransactions = 32

func (c *call) describeTransactions(_ context.Context, in *kmsg.DescribeTransactionsRequest) (*kmsg.DescribeTransactionsResponse, error) {
	out := kmsg.NewPtrDescribeTransactionsResponse()
	out.TransactionStates = []kmsg.DescribeTransactionsResponseTransactionState{}
	read := c.owner.Read
	if len(in.TransactionalIDs) >= manyTransactions {
		read = c.owner.ReadFrozen
	}
	_, err := read(func(s *metadata.State) {
		for _, name := range in.TransactionalIDs {
			out.TransactionStates = append(out.TransactionStates, describeTransaction(s, name))
		}
	})
	return out, err
}

func describeTransaction(s *metadata.State, name string) kmsg.DescribeTransactionsResponseTransactionState {
	d := kmsg.NewDescribeTransactionsResponseTransactionState()
	d.TransactionalID, d.Topics = name, []kmsg.DescribeTransactionsResponseTransactionStateTopic{}
	if name == "" {
		d.ErrorCode = kerr.InvalidRequest.Code
		return d
	}
	t, ok := s.Transaction(name)
	if !ok {
		d.ErrorCode = kerr.TransactionalIDNotFound.Code
		return d
	}
	d.State, d.TimeoutMillis, d.StartTimestamp = t.State.String(), t.TimeoutMs, t.StartedMs
	d.ProducerID, d.ProducerEpoch = t.ProducerID, t.Epoch
	for _, tp := range t.Partitions {
		if topic, ok := s.Topic(tp.Topic); ok {
			addPartition(&d, topic.Name, tp.Partition)
		}
	}
	for _, group := range t.Groups {
		addPartition(&d, internaltopic.Offsets.Name, internaltopic.PartitionOf(group))
	}
	return d
}

func addPartition(d *kmsg.DescribeTransactionsResponseTransactionState, topic string, partition int32) {
	for i := range d.Topics {
		if t := &d.Topics[i]; t.Topic == topic {
			t.Partitions = append(t.Partitions, partition)
			return
		}
	}
	t := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
	t.Topic, t.Partitions = topic, []int32{partition}
	d.Topics = append(d.Topics, t)
}
