package metadata

import (
	"iter"

	"github.com/freshet-io/freshet/metadata/extent"
	"github.com/freshet-io/freshet/metadata/id"
)

// transactionCommand is a command on a transaction.
type transactionCommand interface {
	Command
	applyTo(s *State, fx *Effects) Result
}

func (*InitTransaction) applyTo(*State, *Effects) Result { return Result{Err: ErrUnsupported} }
func (*AddPartitions) applyTo(*State, *Effects) Result   { return Result{Err: ErrUnsupported} }
func (*AddOffsets) applyTo(*State, *Effects) Result      { return Result{Err: ErrUnsupported} }
func (*EndTransaction) applyTo(*State, *Effects) Result  { return Result{Err: ErrUnsupported} }
func (*WriteMarkers) applyTo(*State, *Effects) Result    { return Result{Err: ErrUnsupported} }

// checkTransactionOffsets decides whether a transaction may commit offsets of a group, and if so makes the group part
// of it: under ProtocolTwo implicitly, beginning the transaction if need be; under ProtocolOne it must have been added.
// Errors: ErrUnknownTransaction, ErrFencedProducer, ErrInvalidTransactionState.
func (*State) checkTransactionOffsets(*TransactionRef, string) error { return ErrUnsupported }

// Transaction gives a transactional id's state.
func (*State) Transaction(string) (TransactionInfo, bool) { return TransactionInfo{}, false }

// Transactions gives all transactional ids in their order.
func (*State) Transactions() iter.Seq[TransactionInfo] { return func(func(TransactionInfo) bool) {} }

// Producers gives the producers of a partition in the order of their ids; false if there is no such partition.
func (*State) Producers(id.TopicPartition) (iter.Seq[ProducerInfo], bool) { return nil, false }

// AbortedTransactions gives the aborted transactions that a reader of the offsets [from, to) must know of: those that
// begin below to and whose marker is at or above from, in the order of their markers.
func (*State) AbortedTransactions(id.TopicPartition, int64, int64) []extent.Aborted { return nil }
