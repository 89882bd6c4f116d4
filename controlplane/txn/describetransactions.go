package txn

import (
	"cmp"
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/controlplane/internal/forwarded"
	"github.com/freshet-io/freshet/controlplane/session"
	"github.com/freshet-io/freshet/internal/internaltopic"
	"github.com/freshet-io/freshet/metadata"
)

// DescribeTransactions, key 65, version 0 (KIP-664).
//
// Kafka lists the partition of __consumer_offsets that a group's offsets go to; tools read it, so it is listed here too.

func (c *call) describeTransactions(ctx context.Context, in *kmsg.DescribeTransactionsRequest) (*kmsg.DescribeTransactionsResponse, error) {
	out := kmsg.NewPtrDescribeTransactionsResponse()
	out.TransactionStates = []kmsg.DescribeTransactionsResponseTransactionState{}
	read := c.owner.ReadFrozen
	if len(in.TransactionalIDs) == 1 { // agents ask for one with each new transactional producer
		read = c.owner.Read
	}
	var fault error
	_, err := read(func(s *metadata.State) {
		size := session.AnswerOf(ctx)
		known := map[string]describedTransaction{}
		for _, name := range in.TransactionalIDs {
			d, twice := known[name]
			if !twice {
				d.answer = describeTransaction(s, name)
				one := kmsg.DescribeTransactionsResponse{TransactionStates: []kmsg.DescribeTransactionsResponseTransactionState{d.answer}}
				d.bytes = forwarded.EncodedBytes(&one, in.Version)
				known[name] = d
			}
			if fault = size.Add(d.bytes); fault != nil {
				return
			}
			out.TransactionStates = append(out.TransactionStates, d.answer)
		}
	})
	return out, cmp.Or(err, fault)
}

// describedTransaction is the answer about one transactional ID, and its size.
type describedTransaction struct {
	answer kmsg.DescribeTransactionsResponseTransactionState
	bytes  int
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
	for _, tp := range t.Partitions { // those of a topic stand together
		if topic, ok := s.Topic(tp.Topic); ok {
			addPartition(&d, topic.Name, tp.Partition)
		}
	}
	for _, group := range t.Groups {
		addPartition(&d, internaltopic.Offsets.Name, internaltopic.PartitionOf(group))
	}
	return d
}

// addPartition adds a partition to the last topic, or begins another topic.
func addPartition(d *kmsg.DescribeTransactionsResponseTransactionState, topic string, partition int32) {
	if n := len(d.Topics); n > 0 && d.Topics[n-1].Topic == topic {
		d.Topics[n-1].Partitions = append(d.Topics[n-1].Partitions, partition)
		return
	}
	t := kmsg.NewDescribeTransactionsResponseTransactionStateTopic()
	t.Topic, t.Partitions = topic, []int32{partition}
	d.Topics = append(d.Topics, t)
}
