package metadata

import "github.com/freshet-io/freshet/metadata/id"

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
	// AsOf is a read index that the agent obtained after the request arrived, 0 if unknown. A client that saw an answer sends its next
	// request with AsOf at or above the answer's index. So a ProtocolOne request with a lower AsOf belongs to an earlier transaction.
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

	// AddPartitions adds partitions to a transaction (AddPartitionsToTxn of ProtocolOne clients). The first one begins the transaction.
	// Result: []error, one per partition. If one is ErrUnknownPartition, the others are ErrNotAttempted. Or ErrUnknownTransaction,
	// ErrFencedProducer, or ErrInvalidTransactionState if the request is late.
	AddPartitions struct {
		TransactionRef
		Partitions []id.TopicPartition
	}

	// AddOffsets adds a group to a transaction, which can then commit the group's offsets. It begins the transaction if none is open.
	// Result: nil, or the errors of AddPartitions.
	AddOffsets struct {
		TransactionRef
		Group string
	}

	// EndTransaction commits or aborts a transaction: it writes the markers of all partitions and settles all pending offsets. A repeated
	// command returns the same result. Result: EndTransactionResult, ErrUnknownTransaction, ErrFencedProducer or
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

// EndTransactionResult answers EndTransaction with the id and epoch of the next transaction. EndTxn returns them to ProtocolTwo clients only.
type EndTransactionResult struct {
	ProducerID int64
	Epoch      int16
}

// TransactionState has the numbers of Kafka's TransactionState. The prepare states do not exist, because one command ends a transaction.
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
