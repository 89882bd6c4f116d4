package metadata

import "math"

// initTransaction decides as Kafka's TransactionCoordinator.prepareInitProducerIdTransit and TransactionMetadata do (KIP-360
// for a given producer id and epoch). Where those abort the open transaction, answer CONCURRENT_TRANSACTIONS and have
// the client come again, this does both at once, and gives the epoch that the client would get in the end. Two things
// differ: a producer that gives its current epoch while its own transaction is open goes on two epochs up (there, its
// second try gets the one that the abort brought), and one that gives another epoch then is fenced without aborting anything.
func (s *machine) initTransaction(c *InitTransaction, fx *Effects) Result {
	t := s.transaction(c.TransactionalID)
	if t == nil {
		return s.newTransaction(c)
	}
	if !t.mayContinue(c) {
		return Result{Err: ErrFencedProducer}
	}
	producerID, lastEpoch := t.producerID, noEpoch
	if c.ProducerID >= 0 {
		lastEpoch = c.ProducerEpoch
	}
	given := lastEpoch
	if t.state == TransactionOngoing {
		if c.ProducerID >= 0 && c.ProducerEpoch != t.epoch {
			return Result{Err: ErrFencedProducer}
		}
		t = s.abortFencing(t, fx)
		given = noEpoch
	}
	t, err := s.initEpoch(t, c, given, lastEpoch)
	if err != nil {
		return Result{Err: err}
	}
	fx.Fenced = append(fx.Fenced, producerID)
	return Result{Value: InitTransactionResult{ProducerID: t.producerID, Epoch: t.epoch}}
}

// initEpoch gives a transactional id without an open transaction its next epoch, or the one it has if its producer,
// which gives the epoch before, missed the answer (Kafka's TransactionMetadata.prepareIncrementProducerEpoch and
// prepareProducerIdRotation).
func (s *machine) initEpoch(t *transaction, c *InitTransaction, given, lastEpoch int16) (*transaction, error) {
	again := given != noEpoch && given != t.epoch
	if again && given != t.lastEpoch {
		return nil, ErrFencedProducer
	}
	fresh := noProducer
	if !again && exhausted(t.epoch) {
		if fresh = s.freshProducerID(); fresh < 0 {
			return nil, ErrInvalidCount
		}
	}
	return s.changeTransaction(t, func(t *transaction) {
		t.state, t.started, t.timeoutMs = TransactionEmpty, -1, c.TimeoutMs
		if !again {
			t.nextEpoch(fresh)
			t.lastEpoch = lastEpoch
		}
	}), nil
}

// mayContinue tells whether a producer that gives its id and epoch is the one that the transactional id has, or had
// before the epochs of its id were used up, or gives none.
func (t *transaction) mayContinue(c *InitTransaction) bool {
	return c.ProducerID < 0 || c.ProducerID == t.producerID ||
		c.ProducerID == t.previous && (exhausted(c.ProducerEpoch) || c.ProducerEpoch == t.lastEpoch)
}

// newTransaction makes a transactional id known.
func (s *machine) newTransaction(c *InitTransaction) Result {
	if err := s.allowsTransaction(c.TransactionalID); err != nil {
		return Result{Err: err}
	}
	fresh := s.freshProducerID()
	if fresh < 0 {
		return Result{Err: ErrInvalidCount}
	}
	t := &transaction{
		gen: s.gen, id: c.TransactionalID, producerID: fresh, previous: noProducer, lastEpoch: noEpoch,
		timeoutMs: c.TimeoutMs, started: -1, updated: s.now,
	}
	s.transactions.add(t)
	return Result{Value: InitTransactionResult{ProducerID: fresh, Epoch: 0}}
}

// nextEpoch raises the epoch, or begins again with a fresh producer id if one is given (0 or more), and remembers
// which epoch and id a client may still have.
func (t *transaction) nextEpoch(fresh int64) {
	t.lastEpoch, t.previous = t.epoch, noProducer
	if fresh >= 0 {
		t.previous, t.producerID, t.epoch = t.producerID, fresh, 0
		return
	}
	t.epoch++
}

// abortFencing aborts an open transaction in favour of another producer, and fences its own: the epoch rises once,
// as by any end of ProtocolTwo (Kafka's TransactionMetadata.prepareAbortOrCommit after prepareFenceProducerEpoch, with
// clients of every protocol), and no last epoch is remembered, so that the client cannot take it for the answer to an
// EndTransaction of its own. The last epoch is never given to a client, so it may stay.
func (s *machine) abortFencing(t *transaction, fx *Effects) *transaction {
	epoch := int16(min(int(t.epoch)+1, math.MaxInt16))
	s.endEverywhere(t, t.marker(epoch, false), fx)
	return s.changeTransaction(t, func(t *transaction) {
		s.complete(t, false)
		t.epoch, t.lastEpoch, t.previous = epoch, noEpoch, noProducer
	})
}
