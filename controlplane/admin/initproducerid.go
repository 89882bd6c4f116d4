package admin

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/metadata"
)

// InitProducerId, key 22, versions 0-5.
//
//	2  is flexible
//	3  names the producer id and epoch to go on with; only transactional producers may
//	4  answers PRODUCER_FENCED
//
// Producer ids come from blocks that the owner reserves by command, so that most requests need no log entry. What is
// left of a block is lost with its owner.
//
// A transactional id is refused with UNSUPPORTED_VERSION until there are transactions: clients end at once with an
// error that says so. The coordinator's retriable errors would let them try until their time-out instead.

// producerIDBlock is how many ids are reserved at once, as Kafka's brokers do.
const producerIDBlock = 1000

func (c *call) initProducerID(ctx context.Context, in *kmsg.InitProducerIDRequest) (*kmsg.InitProducerIDResponse, error) {
	out := kmsg.NewPtrInitProducerIDResponse()
	out.ProducerID, out.ProducerEpoch = -1, -1
	switch {
	case in.TransactionalID != nil && *in.TransactionalID == "", (in.ProducerID < 0) != (in.ProducerEpoch < 0):
		out.ErrorCode = kerr.InvalidRequest.Code
		return out, nil
	case in.TransactionalID != nil:
		out.ErrorCode = kerr.UnsupportedVersion.Code
		return out, nil
	}
	producer, err := c.newProducerID(ctx)
	if err != nil {
		return nil, err
	}
	out.ProducerID, out.ProducerEpoch = producer, 0
	return out, nil
}

// newProducerID gives an id that nobody got before.
func (a *APIs) newProducerID(ctx context.Context) (int64, error) {
	a.ids.Lock()
	defer a.ids.Unlock()
	// Held while the block comes: everybody else needs one too.
	if a.ids.next == a.ids.end {
		results, err := a.propose(ctx, &metadata.AllocateProducerIDs{Count: producerIDBlock})
		if err == nil {
			err = results[0].Err
		}
		if err != nil {
			return 0, err
		}
		a.ids.next = results[0].Value.(int64)
		a.ids.end = a.ids.next + producerIDBlock
	}
	// Ids given by an owner that is none any more are still nobody else's: the block is reserved in the log.
	a.ids.next++
	return a.ids.next - 1, nil
}
