package metadata

import "github.com/freshet-io/freshet/metadata/id"

// Kinds 16 to 29 are the transactions'.

// The transaction protocols. ProtocolOne clients add partitions and groups by name and keep their epoch from one
// transaction to the next; for ProtocolTwo (KIP-890: Produce 12, TxnOffsetCommit 5, EndTxn 5 and up) a batch or an
// offset commit adds what it touches, and the end of a transaction raises the epoch.
const (
	ProtocolOne int8 = 1
	ProtocolTwo int8 = 2
)

// TransactionRef is how a request names the transaction it belongs to.
type TransactionRef struct {
	TransactionalID string
	ProducerID      int64
	Epoch           int16
	Version         int8 // ProtocolOne or ProtocolTwo
	// AsOf is a log index that was reached when the agent asked for it, which it did after the request arrived. A
	// request that a client sent on the ground of some answer has an AsOf at or above that answer's index; one of
	// ProtocolOne that is below is late: it belongs to a transaction before. 0 if not known.
	AsOf uint64
}

type (
	// InitTransaction gives a transactional id its producer id and a new epoch, and aborts what its earlier producer
	// left open. The caller has validated the time-out. Result: InitTransactionResult, or ErrFencedProducer.
	InitTransaction struct {
		TransactionalID string
		TimeoutMs       int32 // 1 or more
		ProducerID      int64 // of the producer that wants to go on (KIP-360), -1 if it has none
		ProducerEpoch   int16 // likewise
	}

	// AddPartitions adds partitions to a transaction and begins it with the first (AddPartitionsToTxn of clients of
	// ProtocolOne).
	// Result: []error, one per partition (nil, ErrUnknownPartition, and where there is one of those, ErrNotAttempted for
	// the others), or ErrUnknownTransaction, ErrFencedProducer, ErrInvalidTransactionState (late).
	AddPartitions struct {
		TransactionRef
		Partitions []id.TopicPartition
	}

	// AddOffsets adds a group to a transaction, whose offsets are to be committed in it, and begins it if it is the
	// first thing added. Result: nil, or the errors of AddPartitions.
	AddOffsets struct {
		TransactionRef
		Group string
	}

	// EndTransaction commits or aborts: markers in every partition, pending offsets, all by this one command. Repeated,
	// it gets the same answer. Result: EndTransactionResult, or ErrUnknownTransaction, ErrFencedProducer,
	// ErrInvalidTransactionState.
	EndTransaction struct {
		TransactionRef
		Commit bool
	}

	// WriteMarkers ends what a producer has open in some partitions, whatever its coordinator says (KIP-664).
	// Result: []error, one per partition: nil, ErrUnknownPartition, ErrFencedProducer (the epoch is below the newest).
	WriteMarkers struct {
		ProducerID       int64
		Epoch            int16
		Commit           bool
		CoordinatorEpoch int32
		Partitions       []id.TopicPartition
	}
)

// InitTransactionResult answers InitTransaction.
type InitTransactionResult struct {
	ProducerID int64
	Epoch      int16
}

// EndTransactionResult answers EndTransaction: what the producer goes on with. ProtocolOne clients are not told.
type EndTransactionResult struct {
	ProducerID int64
	Epoch      int16
}

// TransactionState numbers the states as Kafka's TransactionState does; here the states between do not exist, because
// one command ends a transaction.
type TransactionState uint8

// The states of a transactional id.
const (
	TransactionEmpty          TransactionState = 0
	TransactionOngoing        TransactionState = 1
	TransactionCompleteCommit TransactionState = 4
	TransactionCompleteAbort  TransactionState = 5
)

// String gives the name that Kafka's tools show.
func (t TransactionState) String() string {
	switch t {
	case TransactionEmpty:
		return "Empty"
	case TransactionOngoing:
		return "Ongoing"
	case TransactionCompleteCommit:
		return "CompleteCommit"
	case TransactionCompleteAbort:
		return "CompleteAbort"
	}
	return "Unknown"
}

// TransactionInfo describes a transactional id.
type TransactionInfo struct {
	TransactionalID string
	ProducerID      int64
	Epoch           int16
	State           TransactionState
	TimeoutMs       int32
	StartedMs       int64               // command time the transaction began at; -1 if none ever did since the last InitTransaction
	UpdatedMs       int64               // command time of the last change
	Version         int8                // protocol of the transaction that is or was; 0 before the first
	Partitions      []id.TopicPartition // of an ongoing one, in order
	Groups          []string            // likewise
}

// ProducerInfo describes a producer's state in one partition.
type ProducerInfo struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32 // of the newest batch, -1 if none in this epoch
	LastTimestampMs  int64 // command time of the newest batch, whole seconds; -1 if it is not remembered
	CoordinatorEpoch int32 // 0 once a marker was written, else -1: there is one coordinator, the log
	TransactionStart int64 // first offset of the open transaction, -1 if none
}
