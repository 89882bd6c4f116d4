package txn

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/metadata"
)

// InitProducerId, key 22, versions 0-5. Version 6 (two-phase commit, KIP-939) is unstable in Kafka 4.4.
//
//	2  is flexible
//	3  names the producer id and epoch to go on with (KIP-360)
//	4  answers PRODUCER_FENCED (KIP-588)
//	5  may answer TRANSACTION_ABORTABLE (KIP-890)
//
// With a transactional id, what its earlier producer left open is aborted by the same command, where Kafka answers
// CONCURRENT_TRANSACTIONS until its markers are written.

// fencedSinceInit is the first version that knows PRODUCER_FENCED.
const fencedSinceInit = 4

func (c *call) initProducerID(ctx context.Context, in *kmsg.InitProducerIDRequest) (*kmsg.InitProducerIDResponse, error) {
	out := kmsg.NewPtrInitProducerIDResponse()
	out.ProducerID, out.ProducerEpoch = -1, -1
	timeout := time.Duration(in.TransactionTimeoutMillis) * time.Millisecond
	switch {
	case (in.ProducerID == -1) != (in.ProducerEpoch == -1), in.TransactionalID != nil && *in.TransactionalID == "":
		out.ErrorCode = kerr.InvalidRequest.Code
		return out, nil
	case in.TransactionalID == nil:
		return c.idempotentProducer(ctx, out)
	case timeout <= 0 || timeout > c.cfg.MaxTimeout:
		out.ErrorCode = kerr.InvalidTransactionTimeout.Code
		return out, nil
	}
	var refused error
	if _, err := c.owner.Read(func(s *metadata.State) { refused = s.AllowsTransaction(*in.TransactionalID) }); err != nil {
		return nil, err
	}
	if refused != nil {
		out.ErrorCode = codeFor(refused, in.Version, fencedSinceInit)
		return out, nil //nolint:nilerr // the answer has it
	}
	result, _, err := c.owner.Propose(ctx, &metadata.InitTransaction{
		TransactionalID: *in.TransactionalID, TimeoutMs: in.TransactionTimeoutMillis,
		ProducerID: in.ProducerID, ProducerEpoch: in.ProducerEpoch,
	})
	if err != nil {
		return nil, err
	}
	if init, ok := result.Value.(metadata.InitTransactionResult); ok && result.Err == nil {
		out.ProducerID, out.ProducerEpoch = init.ProducerID, init.Epoch
		c.cfg.Log.Debug("transactional producer initialized", zap.String("transactional_id", *in.TransactionalID),
			zap.Int64("producer_id", init.ProducerID), zap.Int16("epoch", init.Epoch))
		return out, nil
	}
	out.ErrorCode = codeFor(result.Err, in.Version, fencedSinceInit)
	return out, nil
}

// idempotentProducer answers a producer without a transactional id: it gets a producer id of its own, whatever it had.
func (c *call) idempotentProducer(ctx context.Context, out *kmsg.InitProducerIDResponse) (*kmsg.InitProducerIDResponse, error) {
	producer, err := c.newProducerID(ctx)
	if err != nil {
		return nil, err
	}
	out.ProducerID, out.ProducerEpoch = producer, 0
	return out, nil
}
