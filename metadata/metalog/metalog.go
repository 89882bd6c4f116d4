// Package metalog is the durable, replicated log of one virtual cluster's metadata commands, and who may write it.
// The log lives in etcd (etcdlog) or, for tests, in memory (memlog): both are a Store of single transactions, and
// New puts the one implementation of ownership, fencing and appends over it. The log knows nothing of what entries
// mean. DESIGN.md beside this file goes through every crash point and every lost answer.
package metalog

import (
	"context"
	"errors"
)

// Errors of the contract. Test with errors.Is.
var (
	// ErrFenced: this tenure is over: another owner was elected, the lease ran out, the fence has fallen, or it
	// was resigned. Nothing of this tenure's will enter the log from now on (I9). From Append, whether the entry
	// entered the log before is unknown.
	ErrFenced = errors.New("ownership lost")
	// ErrHeld: somebody else is the owner.
	ErrHeld = errors.New("ownership is held by another replica")
	// ErrTrimmed: the entry asked for was trimmed; start from a snapshot.
	ErrTrimmed = errors.New("log entry was trimmed")
	// ErrAhead is returned when the reader asks for entries past the tail plus one: it knows more than the log holds. The log's
	// store lost entries (a restored backup), or the reader follows another log.
	ErrAhead = errors.New("reader is ahead of the log")
	// ErrUnavailable: the log's store gave no answer in time.
	ErrUnavailable = errors.New("metadata log unavailable")
	// ErrCorrupt: what the store holds is not what was written: a checksum or the log's contiguity is broken. It is
	// never retried.
	ErrCorrupt = errors.New("metadata log is corrupt")
	// ErrUnsupported is returned for an entry that a newer program wrote. A replica that reads it must stop.
	ErrUnsupported = errors.New("metadata log was written by a newer program")
	// ErrLogFull: the virtual cluster's untrimmed log is at its hard limit (log budget). Nothing was written.
	ErrLogFull = errors.New("metadata log budget is used up")
)

// Entry is one log entry. Index counts from 1 without gaps.
//
// A payload larger than Config.EntryBytes spans consecutive entries: First marks the first, Last the last of them;
// both are set on an entry that is whole by itself. Assembler puts payloads together again.
type Entry struct {
	Index   uint64
	Tenure  int64 // of the owner that wrote it
	First   bool
	Last    bool
	Payload []byte
}

// Owner is what the ownership key tells everybody.
type Owner struct {
	Replica string // id of the control-plane replica
	Address string // its gRPC address for agents
	Tenure  int64  // the ownership key's create revision: rises with every tenure, never reused
}

// Status is the log at one moment.
type Status struct {
	Owner Owner
	Owned bool   // false: nobody is the owner, and Owner is zero
	Tail  uint64 // index of the last entry, 0 when the log is empty
}

// Ownership is the owner of a log as of the newest change that the replica's watch has shown.
type Ownership struct {
	Owner Owner
	Owned bool // false: there is no owner, and Owner is zero
	// Known is false while the watch is not current. Owner and Owned are zero then.
	Known bool
	// Changed is closed when the ownership changes. nil for a log without a lease, which has no watch.
	Changed <-chan struct{}
}

// SnapshotRef points to one snapshot in the bucket, which was decoded from there to a state with the same hash.
type SnapshotRef struct {
	Index uint64 `json:"index"` // the state after this entry
	Name  string `json:"name"`  // key prefix in the bucket
	Bytes int64  `json:"bytes"`
	CRC   uint32 `json:"crc"` // CRC-32C of the manifest
	// Total is about what Tenure.Total was then: how much log is newer follows from it.
	Total int64 `json:"total"`
	// AtMs is the state's command time then.
	AtMs int64 `json:"at_ms"`
}

// Candidate is a replica that wants to be the owner.
type Candidate struct {
	Replica string
	Address string
	// TakeOver removes an ownership key that this same replica id left behind. Only for a process that knows its
	// former self to be dead: `freshet dev` holding its data directory's lock.
	TakeOver bool
}

// Log is the log of one virtual cluster as any replica sees it. Methods are safe for concurrent use.
type Log interface {
	// Status tells the current owner and the tail, read linearizably. Errors: ErrUnavailable, ErrCorrupt.
	Status(ctx context.Context) (Status, error)

	// Ownership returns the owner without a request. It serves to direct agents and to wait, not to decide anything.
	Ownership() Ownership

	// Acquire makes the candidate the owner if there is none, else returns ErrHeld. The tenure is under Config.Lease. If the replica has
	// no lease at the moment, Acquire waits for one. The tail that Tenure.Tail returns was read linearizably after
	// acquiring. The caller resigns when done, or the tenure lasts as long as the lease.
	Acquire(ctx context.Context, c Candidate) (Tenure, error)

	// Read gives entries from index from (>= 1) on, in order and without gaps, at most about maxBytes of payload (at
	// least one entry), and the log's tail at the time of reading (0 when empty). No entries means the reader is at
	// the tail. Linearizable. Errors: ErrTrimmed, ErrAhead, ErrUnavailable, ErrCorrupt, ErrUnsupported.
	Read(ctx context.Context, from uint64, maxBytes int) (entries []Entry, tail uint64, err error)

	// Snapshots gives the pointers to the newest snapshots, newest first, at most two.
	Snapshots(ctx context.Context) ([]SnapshotRef, error)

	// Close releases what the log holds of its own. It does not end a tenure and does not close the store's client.
	Close() error
}

// Tenure is one replica's time as owner. Methods are safe for concurrent use, but Append is called by one goroutine.
type Tenure interface {
	// ID is the ownership key's create revision.
	ID() int64

	// Tail is the last index of the log when the tenure began.
	Tail() uint64

	// Valid reports whether the fences stand: less than the self-fence time went by, on the monotonic clock, since the last successful
	// renewal of the lease was sent, and since the last request that proved the watch of ownership keys current. Read state first, then
	// check Valid, then answer (I9).
	Valid() bool

	// Lost is closed when the tenure is over, resigned or lost.
	Lost() <-chan struct{}

	// Append writes the payload as entry index, which must be the tail plus one, and on where it needs several
	// entries; it returns the index of the last one when all are durable. Unknown outcomes are resolved inside (same
	// transaction again; compare failed: read the entry and compare owner and nonce). It keeps trying until ctx ends
	// or the tenure is lost: ErrFenced, ErrUnavailable, or ErrCorrupt. After any error the index is unresolved and
	// further calls fail.
	Append(ctx context.Context, index uint64, payload []byte) (last uint64, err error)

	// Bytes is the untrimmed payload in the log, what the log budget limits.
	Bytes() int64

	// Total is the payload ever appended to the log, by all tenures.
	Total() int64

	// SetSnapshots replaces the pointers (newest first, at most two), if this tenure still stands.
	SetSnapshots(ctx context.Context, refs []SnapshotRef) error

	// Trim deletes entries up to and including index, if this tenure still stands, and lets the store reclaim space.
	Trim(ctx context.Context, index uint64) error

	// Resign gives ownership up at once. Valid is false from the call's beginning on. After an error the removal of the ownership key is
	// repeated in the background, until the key is gone or the replica's lease has ended.
	Resign(ctx context.Context) error
}
