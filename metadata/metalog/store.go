package metalog

import (
	"context"
	"errors"
	"time"
)

// ErrLeaseGone is returned by a Store for a lease that ran out or was revoked.
var ErrLeaseGone = errors.New("lease is gone")

// ErrMoved is returned by a Store if the pointers to snapshots were set after they were read.
var ErrMoved = errors.New("snapshot pointers were set meanwhile")

// LeaseID names a lease in the store.
type LeaseID int64

// OwnerKey is the ownership key of a log. Owner.Tenure is 0 if the key was removed. Owner.Replica is "" if the value is malformed.
type OwnerKey struct {
	Name  string // Store.OwnerKey
	Owner OwnerRecord
}

// OwnerKeys are ownership keys and a revision of the store. They include all changes up to this revision.
type OwnerKeys struct {
	Keys []OwnerKey
	Point
}

// Point is a moment of a store.
type Point struct {
	Revision int64
	// History is the id of the store's history, which most restores of a backup change. Changes that a watch shows have 0.
	History uint64
}

// LeaseStore has the leases of a store, and the ownership keys of all its logs. Every method is one attempt, as in Store.
type LeaseStore interface {
	// Grant makes a lease.
	Grant(ctx context.Context, ttl time.Duration) (LeaseID, error)

	// Renew renews the lease. Error: ErrLeaseGone.
	Renew(ctx context.Context, lease LeaseID) error

	// Revoke ends the lease and removes all keys under it. A lease that is gone is no error.
	Revoke(ctx context.Context, lease LeaseID) error

	// Owners reads the ownership keys of all logs, linearizably.
	Owners(ctx context.Context) (OwnerKeys, error)

	// WatchOwners calls update with the changes of ownership keys after a revision, in order, until the watch breaks or ctx ends. It never
	// returns nil.
	WatchOwners(ctx context.Context, after int64, update func(OwnerKeys)) error

	// Now reads the store's moment, linearizably, and has WatchOwners report how far it is.
	Now(ctx context.Context) (Point, error)

	// Disown removes an ownership key if it is the tenure's. The lease stays, since other keys share it. A key that is gone is no error.
	Disown(ctx context.Context, name string, tenure int64) error
}

// OwnerRecord is the value of the ownership key. Nonce identifies the claim.
type OwnerRecord struct {
	Replica string `json:"replica"`
	Address string `json:"address"`
	Nonce   uint64 `json:"nonce,string"`
	Tenure  int64  `json:"-"` // the key's create revision
	// Lease is the key's lease.
	Lease LeaseID `json:"-"`
}

func (r *OwnerRecord) public() Owner {
	return Owner{Replica: r.Replica, Address: r.Address, Tenure: r.Tenure}
}

// Tail is the value of the tail key: the last index, and the payload bytes ever appended up to it.
type Tail struct {
	Index uint64
	Total int64
}

// Record is one log entry as the store keeps it. Total counts the payload bytes ever appended, this entry included,
// so that the untrimmed size follows from the first and the last entry.
type Record struct {
	Entry
	Nonce uint64
	Total int64
}

// before is the total up to the entry before this one.
func (r *Record) before() int64 { return r.Total - int64(len(r.Payload)) }

// Pointers are the pointers to snapshots. Their revision is another whenever they were set; 0 as long as they never were.
type Pointers struct {
	Refs     []SnapshotRef
	Revision int64
}

// View is what one linearizable read of owner and tail shows.
type View struct {
	Owner    OwnerRecord
	Owned    bool
	Tail     Tail
	Revision int64 // of the store
}

// Store is one virtual cluster's keys. Every method is one attempt at one atomic operation: an error other than
// ErrLeaseGone and ErrCorrupt means that the outcome is unknown, and the caller resolves it. Reads are linearizable.
// Implementations do not retry.
type Store interface {
	// OwnerKey returns the name of the ownership key.
	OwnerKey() string

	// View reads owner and tail.
	View(ctx context.Context) (View, error)

	// Claim creates the ownership key under the lease if there is none, and returns the owner as it stands now:
	// the claim's own record (same nonce), or another replica's. Error: ErrLeaseGone.
	Claim(ctx context.Context, lease LeaseID, claim OwnerRecord) (OwnerRecord, error)

	// Append, if the owner's tenure and the tail are as given, puts the record and the new tail: ok. Otherwise it
	// gives what stands at the record's index, nil if nothing.
	Append(ctx context.Context, tenure int64, tail Tail, rec *Record) (ok bool, existing *Record, err error)

	// Range reads at most limit records from index from on, and the tail, at one moment.
	Range(ctx context.Context, from uint64, limit int) ([]Record, Tail, error)

	// Delete removes the entries with from <= index < to under the tenure; ok is false when it no longer stands.
	// It must work in a store that is out of space.
	Delete(ctx context.Context, tenure int64, from, to uint64) (ok bool, err error)

	// SetSnapshots replaces the pointers of that revision under the tenure; ok is false when it no longer stands.
	// ErrMoved if the pointers are others by now.
	SetSnapshots(ctx context.Context, tenure, revision int64, refs []SnapshotRef) (ok bool, err error)

	// Snapshots reads the pointers. Their revision comes with ErrCorrupt too.
	Snapshots(ctx context.Context) (Pointers, error)
}
