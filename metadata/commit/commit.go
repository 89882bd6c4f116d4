package commit

import (
	"errors"

	"github.com/freshet-io/freshet/metadata/id"
)

// NoProducer is the producer id of a batch that was not sent by an idempotent producer.
const NoProducer int64 = -1

// ErrMalformed is the base of every decoding error: the bytes are not a commit that an agent could have encoded.
var ErrMalformed = errors.New("malformed commit")

// Header names a commit and says what its answer may forget.
type Header struct {
	Submission id.Submission
	// Acked: results of this session up to this n were received; the state machine may drop them.
	Acked uint32
	// Bytes is the size of the whole bundle object.
	Bytes uint32
	// Resubmit: the commit repeats batches of an earlier submission that were answered Gap. It stands outside the
	// order of n and carries only idempotent batches, so that applying it again has no effect (I3).
	Resubmit bool
}

// Section is one stretch of adjacent batches of one partition in the bundle. A partition may have several.
type Section struct {
	Partition id.TopicPartition
	Position  uint32 // of the first batch's first byte in the object
}

// Batch is what the sequencer knows of one record batch. Batches of a section follow each other without gaps.
type Batch struct {
	Records       int32 // last offset delta + 1, >= 1
	Bytes         int32 // whole batch, header included
	MaxTimestamp  int64 // ms since the epoch, -1 if none
	ProducerID    int64 // NoProducer if not idempotent
	BaseSequence  int32 // meaningful with a producer id
	ProducerEpoch int16
	Transactional bool
	// TransactionVersion is the transaction protocol version of the produce request: 2 adds the partition to the
	// producer's transaction implicitly (KIP-890), 1 requires it to be in already.
	TransactionVersion int8
	// AsOf is, for transactional batches of protocol 1 only, a log index that was reached when the agent asked for it,
	// after the request had arrived: it tells batches of an earlier transaction of the same epoch. 0 if not known.
	AsOf uint64
}

// Outcome says what became of a batch.
type Outcome uint8

const (
	// Accepted batches have offsets: the span's Base is the first batch's base offset, the others follow on.
	Accepted Outcome = iota
	// Duplicate batches were committed before: Base is the base offset they got then, or -1 where no longer known.
	Duplicate
	// Gap: an earlier batch of this producer is missing; hand the batch in again with Resubmit.
	Gap
	// Fenced: the producer's epoch is older than the newest known (INVALID_PRODUCER_EPOCH).
	Fenced
	// OutOfOrder: the sequence can never fit (OUT_OF_ORDER_SEQUENCE_NUMBER).
	OutOfOrder
	// NoPartition: the topic or partition does not exist (UNKNOWN_TOPIC_OR_PARTITION).
	NoPartition
	// InvalidTxn: the batch does not fit the producer's transaction state (INVALID_TXN_STATE).
	InvalidTxn
	// TooManyProducers: the producer is new to the partition, and the state remembers as many active ones as it may. Nothing
	// was appended (NOT_ENOUGH_REPLICAS, which clients retry).
	TooManyProducers
)

// Span is a run of batches of one section with the same outcome. Accepted spans of more than one batch have
// contiguous offsets. NoPartition spans may hold several batches too; every other outcome has one span per batch.
type Span struct {
	Batches uint32
	Outcome Outcome
	Base    int64 // -1 unless Accepted or Duplicate
}

// SectionResult answers one section, its spans covering the section's batches in order.
type SectionResult struct {
	LogStart int64
	Spans    []Span
}

// Status says what became of a submission as a whole.
type Status uint8

const (
	// Settled: Sections say what became of each batch.
	Settled Status = iota
	// SessionClosed: the session was closed before this submission was settled; nothing of it took effect and
	// nothing ever will (I9).
	SessionClosed
	// Abandoned: the submission was given up by name before it was settled; nothing of it took effect.
	Abandoned
	// Forgotten: the submission was settled, but its result was acknowledged or expired.
	Forgotten
)

// Result answers a commit. The same submission always gets the same result (I3).
type Result struct {
	Status   Status
	Sections []SectionResult // one per section, in order; nil unless Settled
}
