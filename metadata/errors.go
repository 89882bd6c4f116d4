package metadata

import (
	"errors"
	"fmt"
)

// Errors that commands end in. They are part of the machine's deterministic output: the same log gives the same
// errors everywhere. Test with errors.Is.
var (
	// ErrBootstrapped: the virtual cluster has its cluster id already, and it is another one.
	ErrBootstrapped = errors.New("already bootstrapped with another cluster id")
	// ErrVersion: the state machine's version does not go down.
	ErrVersion = errors.New("state machine version must rise")
	// ErrTopicExists: a topic of that name or id exists.
	ErrTopicExists = errors.New("topic exists")
	// ErrUnknownTopic: there is no such topic.
	ErrUnknownTopic = errors.New("unknown topic")
	// ErrUnknownPartition: there is no such topic, or it has no such partition.
	ErrUnknownPartition = errors.New("unknown partition")
	// ErrPartitionCount: a topic's partition count is within 1 and MaxPartitions, and only rises.
	ErrPartitionCount = errors.New("invalid partition count")
	// ErrReplicationFactor: a topic's replication factor is within 1 and MaxReplicationFactor.
	ErrReplicationFactor = errors.New("invalid replication factor")
	// ErrOffsetOutOfRange: the offset is below -1 or above the high watermark.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrUnknownSession: no such agent session was ever opened.
	ErrUnknownSession = errors.New("unknown agent session")
	// ErrSessionClosed: the agent session was closed.
	ErrSessionClosed = errors.New("agent session is closed")
	// ErrEarly: the submission's n is above the next one of its session. Nothing was changed; the owner holds such
	// submissions back, so that this is not seen in a log.
	ErrEarly = errors.New("submission is ahead of its session's order")
	// ErrUnknownGroup: there is no such group.
	ErrUnknownGroup = errors.New("unknown group")
	// ErrUnknownJob: there is no such open job: it was completed or aborted, or never was.
	ErrUnknownJob = errors.New("unknown or ended job")
	// ErrJobConflict: another job cleans one of the partitions.
	ErrJobConflict = errors.New("another job cleans the same partition")
	// ErrInvalidOutcome: what the job hands in is malformed or not of the job.
	ErrInvalidOutcome = errors.New("invalid job outcome")
	// ErrConfigsTooLarge is returned for configs of one resource above MaxConfigBytes.
	ErrConfigsTooLarge = errors.New("configs are too large")
	// ErrConfigsChanged: the topic's configs are not those by which the command was decided.
	ErrConfigsChanged = errors.New("configs have changed")
	// ErrInvalidBucket is returned for an empty bucket id, or one longer than MaxBucketID.
	ErrInvalidBucket = errors.New("invalid bucket id")
	// ErrBucketInUse is returned if agents with open sessions use another bucket.
	ErrBucketInUse = errors.New("open sessions use another bucket")
	// ErrInvalidCount: the count is below 1 or too large.
	ErrInvalidCount = errors.New("invalid count")
)

// Errors of transactions. What they become on the wire depends on API and version.
var (
	// ErrFencedProducer: the epoch is not the producer's (PRODUCER_FENCED, INVALID_PRODUCER_EPOCH).
	ErrFencedProducer = errors.New("producer is fenced")
	// ErrUnknownTransaction: there is no such transactional id, or it has another producer id
	// (INVALID_PRODUCER_ID_MAPPING).
	ErrUnknownTransaction = errors.New("unknown transactional id or other producer id")
	// ErrInvalidTransactionState: the request does not fit the transaction's state, or is late: sent in an earlier
	// transaction of the same epoch (INVALID_TXN_STATE).
	ErrInvalidTransactionState = errors.New("invalid transaction state")
	// ErrNotInTransaction: the partition verified is not in the transaction (TRANSACTION_ABORTABLE).
	ErrNotInTransaction = errors.New("partition is not in the transaction")
	// ErrTransactionTooLarge is returned when a transaction would have more groups, or a group more pending offsets, than the
	// state keeps (TRANSACTION_ABORTABLE).
	ErrTransactionTooLarge = errors.New("transaction is too large")
	// ErrNotAttempted: nothing was done, because of an error of another partition (OPERATION_NOT_ATTEMPTED).
	ErrNotAttempted = errors.New("not attempted")
)

// Errors of reading logs and snapshots.
var (
	// ErrMalformedCommand: the bytes are no batch of commands that this format could have written.
	ErrMalformedCommand = errors.New("malformed command batch")
	// ErrMalformedSnapshot: the bytes are no snapshot: cut, damaged or hostile.
	ErrMalformedSnapshot = errors.New("malformed snapshot")
	// ErrStateTooLarge is returned when one record of the state exceeds SectionBytes, so that no snapshot could be read.
	ErrStateTooLarge = errors.New("state is too large for a snapshot")
	// ErrUnsupported: the log or snapshot is of another generation, or was written by a newer version than this program knows.
	// A replica that sees this must stop applying.
	ErrUnsupported = errors.New("not supported by this version")
)

// unsupportedVersion is ErrUnsupported for a state above MaxVersion.
func unsupportedVersion(version uint32) error {
	return fmt.Errorf("%w: the state has version %d, this program runs versions %d to %d: start a newer program; "+
		"a state's version never falls", ErrUnsupported, version, MinVersion, MaxVersion)
}
