package kafka

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/freshet-io/freshet/agent/writer"
	"github.com/freshet-io/freshet/kafkaproto"
)

// implicitTxnVersion is the first Produce version of the second transaction protocol: the batch adds its partition to
// the transaction (KIP-890). abortableVersion is the first that knows TRANSACTION_ABORTABLE,
// and the last that does not add.
const (
	implicitTxnVersion = 12
	abortableVersion   = 11
)

// refuseTransaction gives the error of a request that has transactional batches and may not, before anything of it is
// looked at more closely (KafkaApis.handleProduceRequest): a transactional id is what writing in a transaction is
// authorized by.
func (r *produceRequest) refuseTransaction() error {
	if r.in.TransactionID != nil {
		return nil
	}
	for i := range r.in.Topics {
		for k := range r.in.Topics[i].Partitions {
			if b := r.in.Topics[i].Partitions[k].Records; kafkaproto.IsTransactional(b) {
				return kerr.TransactionalIDAuthorizationFailed
			}
		}
	}
	return nil
}

// checkTransactional looks at the valid batches together (ReplicaManager.handleProduceAppend): those of transactions
// are of one producer, the transactional id has a name, and the producer is its.
func (r *produceRequest) checkTransactional(ctx context.Context) {
	var first kafkaproto.RecordBatch
	mixed := false
	for i := range r.parts {
		if p := &r.parts[i]; p.err != nil || !p.transactional {
			continue
		} else if first == nil {
			first = p.sent
		} else if first.ProducerID() != p.sent.ProducerID() || first.ProducerEpoch() != p.sent.ProducerEpoch() {
			mixed = true
		}
	}
	switch {
	case first == nil:
	case mixed:
		n := len(r.parts)
		r.parts = r.parts[:0]
		r.refuseAll(n, &kafkaproto.BatchError{
			Kafka: kerr.InvalidProducerIDMapping, Record: -1,
			Detail: "Transactional records contained more than one producer ID",
		})
	case *r.in.TransactionID == "":
		r.dropTransactional(kerr.InvalidRequest)
	default:
		r.checkProducer(ctx, first.ProducerID())
	}
}

// dropTransactional refuses the transactional batches and keeps the others.
func (r *produceRequest) dropTransactional(err error) {
	for i := range r.parts {
		if p := &r.parts[i]; p.err == nil && p.transactional {
			p.refuse(err)
		}
	}
}

// askStamp asks how new the request is if it may have batches of the first transaction protocol, whose answer comes
// while they are gathered and put. It is asked for under ctx, which ends with the connection: what its client gave up
// before the stamp came is not taken.
func (r *produceRequest) askStamp(ctx context.Context) (cancel context.CancelFunc) {
	if r.in.TransactionID == nil || r.in.Version >= implicitTxnVersion {
		return func() {}
	}
	r.stamp, cancel = askStamp(ctx, r.api.cfg.Prober, r.req)
	return cancel
}

// transaction describes a transactional batch to the sequencer.
func (r *produceRequest) transaction(b *writer.Batch) {
	b.Commit.Transactional, b.Commit.TransactionVersion = true, 2
	if r.in.Version < implicitTxnVersion {
		b.Commit.TransactionVersion, b.Stamp = 1, r.stamp
	}
}

// transactionCode is the code of a batch that does not fit its producer's transaction. Kafka tells clients that know
// TRANSACTION_ABORTABLE, and that add partitions themselves, to abort (AddPartitionsToTxnManager).
func (r *produceRequest) transactionCode(p *producePart) int16 {
	if p.transactional && r.in.Version == abortableVersion {
		return kerr.TransactionAbortable.Code
	}
	return kerr.InvalidTxnState.Code
}
