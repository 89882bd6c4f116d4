package metadata

import "github.com/freshet-io/freshet/metadata/id"

// GroupKind is the protocol of a group, which decides the format of Head and Members. Its numbers are part of the log's format.
type GroupKind uint8

// The kinds of groups. 3 is kept for share groups (KIP-932), 4 for streams groups (KIP-1071).
const (
	// GroupNone is a group with offsets only: no member ever joined, or its members are gone.
	GroupNone GroupKind = iota
	// GroupClassic is a group of the classic protocol.
	GroupClassic
	// GroupConsumer is a group of the consumer protocol (KIP-848).
	GroupConsumer
)

type (
	// UpdateGroup stores the state of a group, in the coordinator's own format. It creates the group if there is none.
	// Result: nil or *LimitError.
	UpdateGroup struct {
		Group   string
		Kind    GroupKind
		Head    []byte        // state of the group without its members; nil keeps the stored one
		Reset   bool          // remove all stored members before adding Members
		Members []GroupMember // changed members, in any order, each at most once
	}

	// DeleteGroup removes a group with its members, offsets and pending offsets. Result: nil or ErrUnknownGroup.
	DeleteGroup struct{ Group string }

	// CommitOffsets stores offsets that a group committed, at command time. With Transaction they are pending until
	// the transaction ends. Result: Value is []error, one per offset (nil, ErrUnknownPartition or *LimitError). Or Err of the
	// transaction, and nothing was stored.
	CommitOffsets struct {
		Group       string
		Transaction *TransactionRef // nil for a plain commit
		Offsets     []OffsetCommit
	}

	// DeleteOffsets removes committed and pending offsets of a group. If CommittedBefore is set, it skips partitions with a pending offset,
	// and offsets committed later. So the expiry of offsets spares newer commits.
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
	ExpiresMs   int64 // ms since the epoch; -1 means the configured retention
}
