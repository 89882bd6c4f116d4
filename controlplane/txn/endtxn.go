package txn

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
)

// EndTxn, key 26, versions 0-5.
//
//	2  answers PRODUCER_FENCED (KIP-588)
//	3  is flexible
//	4  may answer TRANSACTION_ABORTABLE (KIP-890)
//	5  is the second protocol: the epoch rises with the end of the transaction, and is answered
//
// The answer comes when the markers are in every partition, where Kafka only has decided.

const (
	fencedSinceEnd = 2
	epochSinceEnd  = 5
)

func (c *call) endTxn(ctx context.Context, in *kmsg.EndTxnRequest) (*kmsg.EndTxnResponse, error) {
	out := kmsg.NewPtrEndTxnResponse()
	out.ProducerID, out.ProducerEpoch = -1, -1
	if in.TransactionalID == "" {
		out.ErrorCode = kerr.InvalidRequest.Code
		return out, nil
	}
	protocol := metadata.ProtocolOne
	if in.Version >= epochSinceEnd {
		protocol = metadata.ProtocolTwo
	}
	result, _, err := c.owner.Propose(ctx, &metadata.EndTransaction{
		TransactionRef: c.ref(in.TransactionalID, in.ProducerID, in.ProducerEpoch, protocol),
		Commit:         in.Commit,
	})
	if err != nil {
		return nil, err
	}
	out.ErrorCode = codeFor(result.Err, in.Version, fencedSinceEnd)
	if end, ok := result.Value.(metadata.EndTransactionResult); ok && result.Err == nil && protocol == metadata.ProtocolTwo {
		out.ProducerID, out.ProducerEpoch = end.ProducerID, end.Epoch
	}
	return out, nil
}
