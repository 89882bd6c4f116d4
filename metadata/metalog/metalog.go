// Package metalog is the durable, replicated log of one virtual cluster's metadata commands, and who may write it.
// The log lives in etcd; the same contract in memory serves tests. The log knows nothing of what entries mean.
package metalog

import (
	"context"
	"errors"
	"time"
)

// Errors of the contract. Test with errors.Is.
var (
	// ErrFenced: this tenure is over: another owner was elected, the lease ran out, or the fence has fallen.
	// Nothing of this tenure's will enter the log from now on (I9).
	ErrFenced = errors.New("ownership lost")
	// ErrHeld: somebody else is the owner.
	ErrHeld = errors.New("ownership is held by another replica")
	// ErrTrimmed: the entry asked for was trimmed; start from a snapshot.
	ErrTrimmed = errors.New("log entry was trimmed")
	// ErrUnavailable: the log's store gave no answer in time. For Append this is resolved inside (see there).
	ErrUnavailable = errors.New("metadata log unavailable")
	// ErrLogFull: the virtual cluster's untrimmed log is at its hard limit (log budget).
	ErrLogFull = errors.New("metadata log budget is used up")
)

// Entry is one log entry. Index counts from 1 without gaps.
type Entry struct {
	Index   uint64
	Payload []byte
}

// Owner is what the ownership key tells everybody.
type Owner struct {
	Replica string // id of the control-plane replica
	Address string // its gRPC address for agents
	Tenure  int64  // the ownership key's create revision: rises with every tenure, never reused
}

// SnapshotRef points to one snapshot in the bucket.
type SnapshotRef struct {
	Index uint64 // the state after this entry
	Name  string // key prefix in the bucket
	Bytes int64
	CRC   uint32 // of the manifest
}

// Log is the log of one virtual cluster as any replica sees it.
type Log interface {
	// Owner tells the current owner; ok is false when there is none. Linearizable.
	Owner(ctx context.Context) (owner Owner, ok bool, err error)

	// Acquire makes this replica the owner if nobody is, else returns ErrHeld. The tenure's lease is renewed in the
	// background until Resign or until it is lost. The tail that Tenure.Tail gives was read linearizably after
	// acquiring.
	Acquire(ctx context.Context, replica, address string) (Tenure, error)

	// Read gives entries from index from on, in order, at most about maxBytes of payload (at least one entry), and
	// the log's tail index at the time of reading (0 when empty). No entries with tail >= from does not happen; no
	// entries means the reader is at the tail. Errors: ErrTrimmed, ErrUnavailable.
	Read(ctx context.Context, from uint64, maxBytes int) (entries []Entry, tail uint64, err error)

	// Snapshots gives the pointers to the newest snapshots, newest first, at most two.
	Snapshots(ctx context.Context) ([]SnapshotRef, error)

	// Size is the approximate untrimmed payload bytes, from what this replica wrote or read.
	Close() error
}

// Tenure is one replica's time as owner. Methods are safe for concurrent use, but Append is called by one goroutine.
type Tenure interface {
	// ID is the ownership key's create revision.
	ID() int64

	// Tail is the last index of the log when the tenure began.
	Tail() uint64

	// Valid tells whether the fence still stands: less than the self-fence time went by, on the monotonic clock,
	// since the last successful renewal was sent. Read state first, then check Valid, then answer (I9).
	Valid() bool

	// Lost is closed when the tenure is over.
	Lost() <-chan struct{}

	// Append writes the payload as entry index, which must be the tail plus one. It returns nil when the entry is
	// durable, and resolves unknown outcomes itself (same transaction again; compare failed: read the entry and
	// compare owner and nonce). It keeps trying until ctx ends or the tenure is lost. After any error the caller
	// must not append again under this tenure: the index is unresolved.
	Append(ctx context.Context, index uint64, payload []byte) error

	// SetSnapshots replaces the pointers (newest first, at most two), if this tenure still stands.
	SetSnapshots(ctx context.Context, refs []SnapshotRef) error

	// Trim deletes entries up to and including index, if this tenure still stands, and lets the store reclaim space.
	Trim(ctx context.Context, index uint64) error

	// Resign gives ownership up at once, so that another replica need not wait for the lease.
	Resign(ctx context.Context) error
}

// Timing of ownership (design.md 6). Zero fields take the defaults.
type Timing struct {
	Lease     time.Duration // 5 s
	Renew     time.Duration // 500 ms
	SelfFence time.Duration // 3.5 s, counted from the send time of the last renewal that succeeded
}
