package txn

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
)

// AddOffsetsToTxn, key 25, versions 0-4. Only clients of the first protocol send it: in the second one TxnOffsetCommit
// adds the group.
//
//	2  answers PRODUCER_FENCED (KIP-588)
//	3  is flexible
//	4  may answer TRANSACTION_ABORTABLE (KIP-890)

const (
	fencedSinceAddOffsets    = 2
	abortableSinceAddOffsets = 4
)

func (c *call) addOffsetsToTxn(ctx context.Context, in *kmsg.AddOffsetsToTxnRequest) (*kmsg.AddOffsetsToTxnResponse, error) {
	out := kmsg.NewPtrAddOffsetsToTxnResponse()
	if in.TransactionalID == "" {
		out.ErrorCode = kerr.InvalidRequest.Code
		return out, nil
	}
	result, _, err := c.owner.Propose(ctx, &metadata.AddOffsets{
		TransactionRef: c.ref(in.TransactionalID, in.ProducerID, in.ProducerEpoch, metadata.ProtocolOne), Group: in.Group,
	})
	out.ErrorCode = codeFor(result.Err, in.Version, fencedSinceAddOffsets)
	if out.ErrorCode == kerr.TransactionAbortable.Code && in.Version < abortableSinceAddOffsets {
		out.ErrorCode = kerr.InvalidTxnState.Code
	}
	return out, err
}
