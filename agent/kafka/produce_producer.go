package kafka

import (
	"context"
	"fmt"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/edge"
)

// maxKnownProducers bounds the producer ids whose transactional id is remembered, about 2 MiB. At the bound all are
// forgotten, and each is asked for once more.
const maxKnownProducers = 16384

// transactionalIDs knows which transactional id a producer id was given to, which never changes: producer ids are given
// once. So one question for each producer is enough, and what is known holds without a control plane.
type transactionalIDs struct {
	to Forwarder
	mu struct {
		sync.Mutex
		of map[int64]string // by producer id
	}
}

// check tells whether a producer id is the transactional id's, which is what Kafka's
// TransactionCoordinator.handleVerifyPartitionsInTransaction checks: InvalidProducerIDMapping if it is not,
// NotEnoughReplicas if the owner does not say (as AddPartitionsToTxnManager and ReplicaManager answer a coordinator that
// cannot be asked).
func (t *transactionalIDs) check(ctx context.Context, req *edge.Request, name string, producerID int64) error {
	if known, ok := t.known(producerID); ok {
		if known != name {
			return kerr.InvalidProducerIDMapping
		}
		return nil
	}
	current, err := t.ask(ctx, req, name)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", kerr.NotEnoughReplicas, err)
	case current != producerID:
		return kerr.InvalidProducerIDMapping
	}
	t.learn(producerID, name)
	return nil
}

func (t *transactionalIDs) known(producerID int64) (name string, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name, ok = t.mu.of[producerID]
	return name, ok
}

func (t *transactionalIDs) learn(producerID int64, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.of == nil || len(t.mu.of) >= maxKnownProducers {
		t.mu.of = map[int64]string{}
	}
	t.mu.of[producerID] = name
}

// ask gives the producer id that a transactional id has, -1 if there is no such transactional id. What the owner says is
// as new as the request, so the producer's InitProducerId is in it.
func (t *transactionalIDs) ask(ctx context.Context, req *edge.Request, name string) (int64, error) {
	in := kmsg.NewPtrDescribeTransactionsRequest()
	in.TransactionalIDs = []string{name}
	f := forwardOf(req, new(Zones))
	f.Key, f.Version, f.Body = in.Key(), in.Version, in.AppendTo(nil)
	body, err := t.to.Forward(ctx, f)
	if err != nil {
		return -1, fmt.Errorf("ask whose a producer is: %w", err)
	}
	out := kmsg.NewPtrDescribeTransactionsResponse()
	if err := out.ReadFrom(body); err != nil {
		return -1, fmt.Errorf("ask whose a producer is: %w", err)
	}
	if len(out.TransactionStates) != 1 {
		return -1, fmt.Errorf("ask whose a producer is: %d answers", len(out.TransactionStates))
	}
	switch state := out.TransactionStates[0]; state.ErrorCode {
	case 0:
		return state.ProducerID, nil
	case kerr.TransactionalIDNotFound.Code:
		return -1, nil
	default:
		return -1, fmt.Errorf("ask whose a producer is: %w", kerr.ErrorForCode(state.ErrorCode))
	}
}

// checkProducer refuses the transactional batches if their producer, which is one, is not the transactional id's. It may
// ask the owner, within produceFreshTimeout.
func (r *produceRequest) checkProducer(ctx context.Context, producerID int64) {
	ctx, cancel := context.WithTimeout(ctx, produceFreshTimeout)
	defer cancel()
	if err := r.api.producers.check(ctx, r.req, *r.in.TransactionID, producerID); err != nil {
		r.api.cfg.Log.Debug("transactional batches refused", zap.String("transactional_id", *r.in.TransactionID),
			zap.Int64("producer_id", producerID), zap.Error(err))
		r.dropTransactional(err)
	}
}
