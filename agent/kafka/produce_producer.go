package kafka

import (
	"container/list"
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"

	"github.com/freshet-io/freshet/agent/edge"
)

// maxKnownBytes bounds the memory of the producer IDs whose transactional ID is remembered: knownBytes and the transactional ID
// each, so 16,384 of them with names of 64 bytes. Beyond, the least recently used producer IDs are forgotten, and the next
// request of each asks the owner once.
const (
	maxKnownBytes = 4 << 20
	knownBytes    = 192
)

// transactionalIDs remembers which transactional ID each producer ID was given to. That never changes, so one question for each
// producer is enough, and the answer holds without a control plane.
type transactionalIDs struct {
	to Forwarder
	mu struct {
		sync.Mutex
		of    map[int64]*list.Element // by producer ID
		used  list.List               // of *knownProducer, the least recently used first
		bytes int
	}
}

// knownProducer is a producer ID and the transactional ID that it was given to.
type knownProducer struct {
	id   int64
	name string
}

// check returns InvalidProducerIDMapping if a producer ID was not given to the transactional ID, as Kafka's
// TransactionCoordinator.handleVerifyPartitionsInTransaction does. It returns NotEnoughReplicas if the owner does not answer, as
// AddPartitionsToTxnManager and ReplicaManager do if the coordinator does not.
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
	e := t.mu.of[producerID]
	if e == nil {
		return "", false
	}
	t.mu.used.MoveToBack(e)
	return e.Value.(*knownProducer).name, true
}

func (t *transactionalIDs) learn(producerID int64, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.of == nil {
		t.mu.of = make(map[int64]*list.Element)
	}
	if t.mu.of[producerID] != nil { // two requests asked at once
		return
	}
	t.mu.of[producerID] = t.mu.used.PushBack(&knownProducer{producerID, strings.Clone(name)})
	t.mu.bytes += knownBytes + len(name)
	for t.mu.bytes > maxKnownBytes {
		oldest := t.mu.used.Remove(t.mu.used.Front()).(*knownProducer)
		delete(t.mu.of, oldest.id)
		t.mu.bytes -= knownBytes + len(oldest.name)
	}
}

// ask returns the producer ID of a transactional ID, or -1 if the transactional ID does not exist. The owner's answer is no older
// than the request, so it includes the producer's InitProducerId.
func (t *transactionalIDs) ask(ctx context.Context, req *edge.Request, name string) (int64, error) {
	in := kmsg.NewPtrDescribeTransactionsRequest()
	in.TransactionalIDs = []string{name}
	f := forwardOf(req, new(Zones))
	f.Key, f.Version, f.Body = in.Key(), in.Version, in.AppendTo(nil)
	body, err := t.to.Forward(ctx, f)
	if err != nil {
		return -1, fmt.Errorf("look up the producer of a transactional id: %w", err)
	}
	out := kmsg.NewPtrDescribeTransactionsResponse()
	if err := out.ReadFrom(body); err != nil {
		return -1, fmt.Errorf("look up the producer of a transactional id: %w", err)
	}
	if len(out.TransactionStates) != 1 {
		return -1, fmt.Errorf("look up the producer of a transactional id: %d answers", len(out.TransactionStates))
	}
	switch state := out.TransactionStates[0]; state.ErrorCode {
	case 0:
		return state.ProducerID, nil
	case kerr.TransactionalIDNotFound.Code:
		return -1, nil
	default:
		return -1, fmt.Errorf("look up the producer of a transactional id: %w", kerr.ErrorForCode(state.ErrorCode))
	}
}

// checkProducer refuses the transactional batches if their one producer ID is not the transactional ID's. It may ask the owner,
// within produceFreshTimeout.
func (r *produceRequest) checkProducer(ctx context.Context, producerID int64) {
	ctx, cancel := context.WithTimeout(ctx, produceFreshTimeout)
	defer cancel()
	if err := r.api.producers.check(ctx, r.req, *r.in.TransactionID, producerID); err != nil {
		r.api.cfg.Log.Debug("transactional batches refused", zap.String("transactional_id", *r.in.TransactionID),
			zap.Int64("producer_id", producerID), zap.Error(err))
		r.dropTransactional(err)
	}
}
