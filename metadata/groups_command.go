package metadata

import "github.com/freshet-io/freshet/metadata/id"

// GroupKind says what a group's bytes are of. The numbers are part of the log's format.
type GroupKind uint8

// The kinds of groups. 3 is kept for share groups (KIP-932), 4 for streams groups (KIP-1071).
const (
	// GroupNone is a group that has offsets only: nobody joined it, or what had joined is gone.
	GroupNone GroupKind = iota
	// GroupClassic is a group of the classic protocol.
	GroupClassic
	// GroupConsumer is a group of the consumer protocol (KIP-848).
	GroupConsumer
)

type (
	// UpdateGroup stores what a group's coordinator makes durable: bytes that only the coordinator understands.
	// A group comes to be by it. Result: nil.
	UpdateGroup struct {
		Group   string
		Kind    GroupKind
		Head    []byte        // of the group as a whole; nil leaves it as it is
		Reset   bool          // drop the members there are before adding Members
		Members []GroupMember // changed ones, in any order, each at most once
	}

	// DeleteGroup removes a group with its members, offsets and pending offsets. Result: nil or ErrUnknownGroup.
	DeleteGroup struct{ Group string }

	// CommitOffsets stores offsets that a group committed, at command time. With Transaction they are pending until
	// the transaction ends. Result: Value is []error, one per offset (nil or ErrUnknownPartition); or Err of the
	// transaction, and nothing was stored.
	CommitOffsets struct {
		Group       string
		Transaction *TransactionRef // nil for a plain commit
		Offsets     []OffsetCommit
	}

	// DeleteOffsets removes offsets of a group, pending ones too. Where CommittedBefore is given, only
	// those committed at that time or before of which nothing is pending, so that a sweep does not remove what came
	// since it looked.
	// Result: Value is []error, one per partition (nil or ErrUnknownPartition); Err ErrUnknownGroup.
	DeleteOffsets struct {
		Group           string
		Partitions      []id.TopicPartition
		CommittedBefore []int64 // ms, one per partition; nil for no condition
	}
)

// GroupMember is one member's part of UpdateGroup.
type GroupMember struct {
	ID    string
	Value []byte // nil removes the member
}

// OffsetCommit is one partition's part of CommitOffsets.
type OffsetCommit struct {
	Partition   id.TopicPartition
	Offset      int64
	LeaderEpoch int32 // -1 if the client named none
	Metadata    string
	ExpiresMs   int64 // ms since the epoch; -1: by the retention configured
}

// Numbers of the commands of groups and offsets in the log: 30 to 39.
