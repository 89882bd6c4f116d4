package metadata

import (
	"fmt"

	"github.com/freshet-io/freshet/metadata/commit"
	"github.com/freshet-io/freshet/metadata/id"
)

// named gives the transaction that a request names, if its producer id and epoch are the current ones (Kafka's
// TransactionCoordinator.handleAddPartitionsToTransaction).
func (s *machine) named(r *TransactionRef) (*transaction, error) {
	t := s.transaction(r.TransactionalID)
	switch {
	case t == nil || t.producerID != r.ProducerID:
		return nil, ErrUnknownTransaction
	case t.epoch != r.Epoch:
		return nil, ErrFencedProducer
	}
	return t, nil
}

// toAdd is named for requests that add something. Several may run side by side, and the first begins the transaction. So a late request of
// ProtocolOne is recognized by the end of the transaction before.
func (s *machine) toAdd(r *TransactionRef) (*transaction, error) {
	t, err := s.named(r)
	if err == nil && r.Version < ProtocolTwo && r.AsOf < t.ended {
		return nil, ErrInvalidTransactionState
	}
	return t, err
}

func (s *machine) addPartitions(c *AddPartitions, _ *Effects) Result {
	t, err := s.toAdd(&c.TransactionRef)
	if err != nil {
		return Result{Err: err}
	}
	errs, ok := s.existing(c.Partitions)
	if !ok || !t.lacks(c.Partitions) {
		return Result{Value: errs}
	}
	s.changeTransaction(t, func(t *transaction) {
		s.begin(t, c.Version)
		for _, tp := range c.Partitions {
			if _, in := t.partition(tp); !in {
				s.addPartition(t, tp)
			}
		}
	})
	return Result{Value: errs}
}

// lacks tells whether any of the partitions is not in the transaction.
func (t *transaction) lacks(list []id.TopicPartition) bool {
	for _, tp := range list {
		if _, in := t.partition(tp); !in {
			return true
		}
	}
	return false
}

// existing returns one error per partition: nil if all of them exist, else ErrUnknownPartition for missing ones and ErrNotAttempted for the
// others.
func (s *machine) existing(list []id.TopicPartition) (errs []error, ok bool) {
	errs, ok = make([]error, len(list)), true
	for i, tp := range list {
		if _, exists := s.partitionEntry(tp); !exists {
			errs[i], ok = ErrUnknownPartition, false
		}
	}
	for i := range errs {
		if !ok && errs[i] == nil {
			errs[i] = ErrNotAttempted
		}
	}
	return errs, ok
}

// VerifyPartitions tells which partitions are in a transaction: one error per partition, those of AddPartitions and
// ErrNotInTransaction; or ErrUnknownTransaction, ErrFencedProducer.
func (s *machine) VerifyPartitions(r *TransactionRef, list []id.TopicPartition) ([]error, error) {
	t, err := s.named(r)
	if err != nil {
		return nil, err
	}
	errs, ok := s.existing(list)
	for i, tp := range list {
		if _, in := t.partition(tp); ok && !in {
			errs[i] = ErrNotInTransaction
		}
	}
	return errs, nil
}

func (s *machine) addOffsets(c *AddOffsets, _ *Effects) Result {
	t, err := s.toAdd(&c.TransactionRef)
	if err == nil {
		err = s.joinGroup(t, c.Version, c.Group)
	}
	return Result{Err: err}
}

// joinGroup makes a group part of a transaction, if it is not. Errors: ErrTransactionTooLarge, which wraps *LimitError at a limit
// of the state.
func (s *machine) joinGroup(t *transaction, version int8, group string) error {
	if err := s.allowsJoin(t, group); err != nil {
		return err
	}
	if _, in := t.group(group); in {
		return nil
	}
	s.changeTransaction(t, func(t *transaction) {
		s.begin(t, version)
		s.addGroup(t, group)
	})
	return nil
}

// allowsJoin returns the error of joinGroup.
func (s *machine) allowsJoin(t *transaction, group string) error {
	if _, in := t.group(group); in {
		return nil
	}
	if err := s.admitsGroup(t, group); err != nil {
		return err
	}
	if err := s.allows(LimitTextBytes, int64(len(group))); err != nil {
		return fmt.Errorf("%w: %w", ErrTransactionTooLarge, err)
	}
	return nil
}

// group gives the log index at which a group was added; false if it is not in the transaction.
func (t *transaction) group(group string) (index uint64, ok bool) {
	if t.groups == nil {
		return 0, false
	}
	return t.groups.Get(group)
}

// enterOffsets decides whether a transaction may commit offsets of a group, and if so makes the group part of it. Under ProtocolTwo, that
// begins the transaction if need be. Errors: those of allowsTransactionOffsets.
func (s *machine) enterOffsets(c *CommitOffsets) error {
	t, err := s.allowsTransactionOffsets(c)
	if err == nil && c.Transaction.Version >= ProtocolTwo {
		err = s.joinGroup(t, c.Transaction.Version, c.Group)
	}
	return err
}

// allowsTransactionOffsets returns the transaction that may commit offsets of a group. Under ProtocolOne, the client must have seen the answer to
// the group's addition. Errors: ErrUnknownTransaction, ErrFencedProducer, ErrInvalidTransactionState, ErrTransactionTooLarge, which wraps
// *LimitError at a limit of the state.
func (s *machine) allowsTransactionOffsets(c *CommitOffsets) (*transaction, error) {
	r := c.Transaction
	t, err := s.named(r)
	if err != nil {
		return nil, err
	}
	if index, in := t.group(c.Group); r.Version < ProtocolTwo && (!in || r.AsOf < index) {
		return nil, ErrInvalidTransactionState
	}
	if err := s.admitsPending(c); err != nil {
		return nil, err
	}
	if err := s.allowsCommit(c.Group, c.Offsets); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTransactionTooLarge, err)
	}
	if r.Version >= ProtocolTwo {
		err = s.allowsJoin(t, c.Group)
	}
	return t, err
}

// checkTransaction decides whether an idempotent batch fits the open transaction of its producer: Accepted, or else Fenced or
// InvalidTxn. A batch of ProtocolTwo needs the producer's epoch only, which changes with every transaction. The sender of a batch of
// ProtocolOne must have seen the partition's addition to this transaction. A batch
// outside of its producer's open transaction is Fenced if its epoch is an old one (Kafka's ProducerAppendInfo checks the epoch
// before anything else), and InvalidTxn otherwise. p is the partition, nil if it never had a record.
func (s *machine) checkTransaction(tp id.TopicPartition, p *partition, b *commit.Run) commit.Outcome {
	if !b.Transactional {
		_, open := p.openSince(b.ProducerID)
		switch {
		case !open:
			return commit.Accepted
		case s.pastEpoch(b):
			return commit.Fenced
		default:
			return commit.InvalidTxn
		}
	}
	t, ok := s.transactions.byProducer.Get(b.ProducerID)
	switch {
	case !ok:
		return commit.InvalidTxn
	case b.ProducerEpoch != t.epoch:
		return commit.Fenced
	case b.TransactionVersion >= ProtocolTwo:
		return commit.Accepted
	}
	if added, in := t.partition(tp); !in || b.AsOf < added.index {
		return commit.InvalidTxn
	}
	return commit.Accepted
}

// pastEpoch reports whether a batch has an epoch that its transactional producer has left.
func (s *machine) pastEpoch(b *commit.Run) bool {
	t, ok := s.transactions.byProducer.Get(b.ProducerID)
	return ok && b.ProducerEpoch < t.epoch
}

// enterTransaction makes an accepted batch part of its producer's transaction.
func (s *machine) enterTransaction(e *topicEntry, p *partition, tp id.TopicPartition, b *commit.Run, base int64) {
	s.counting(e, p, func() { p.openTransaction(b.ProducerID, base) })
	t, _ := s.transactions.byProducer.Get(b.ProducerID)
	if _, in := t.partition(tp); in {
		return
	}
	s.changeTransaction(t, func(t *transaction) {
		s.begin(t, b.TransactionVersion)
		s.addPartition(t, tp)
	})
}
