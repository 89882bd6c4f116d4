// Package objstore is what Freshet needs of an object store: a bucket of immutable objects, created once, read by
// range, listed by prefix, deleted in batches. Every provider passes the one contract test of objstoretest.
package objstore

import (
	"context"
	"errors"
	"io"
	"time"
)

// Errors that every provider maps its own to. Test with errors.Is.
var (
	// ErrNotFound: the object does not exist.
	ErrNotFound = errors.New("object not found")
	// ErrAlreadyExists: a create-only put found the key taken. The object there may be the caller's own, from an
	// attempt whose answer was lost: compare with Head.
	ErrAlreadyExists = errors.New("object already exists")
	// ErrThrottled: the store asks for fewer requests (503 SlowDown, 429). Nothing happened; retry after a pause.
	ErrThrottled = errors.New("object store throttles")
	// ErrOutcomeUnknown: the request may or may not have taken effect (time-out, connection lost, 5xx on write).
	ErrOutcomeUnknown = errors.New("outcome unknown")
	// ErrConflict: a concurrent create of the same key is under way (409); retry the same put.
	ErrConflict = errors.New("conflicting request under way")
	// ErrChecksum: the store refused the bytes because they do not match the checksum given, or bytes read do not.
	ErrChecksum = errors.New("object checksum mismatch")
	// ErrRange: a Get asked for bytes that start at or past the object's end.
	ErrRange = errors.New("range starts past the object's end")
	// ErrKey: the key is not one that every store can hold (see CheckKey).
	ErrKey = errors.New("invalid object key")
	// ErrRefused: the store answered that who asks may not, or is not known to it.
	ErrRefused = errors.New("object store refuses access")
	// ErrNoCredentials: there was nothing to sign the request with, so the store was not asked.
	ErrNoCredentials = errors.New("no credentials for the object store")
	// ErrFull is returned for a write that the store has no room for, or that a quota forbids. Nothing happened. Writes work
	// again when there is room.
	ErrFull = errors.New("object store is full")
	// ErrReadOnly is returned for a write to a store that takes none. Nothing happened.
	ErrReadOnly = errors.New("object store is read-only")
	// ErrNoBucket: the bucket itself does not exist.
	ErrNoBucket = errors.New("no such bucket")
)

// MaxKeys is the largest page that List gives and the largest batch that Delete takes.
const MaxKeys = 1000

// Info describes one object.
type Info struct {
	Key      string
	Size     int64
	Modified time.Time // by the store's clock
	CRC32C   uint32    // Castagnoli, of the whole object; valid if HasCRC (Head only)
	HasCRC   bool
}

// Body is an object's content as buffers written in order, without copying them together. The buffers must not
// change until Put returned.
type Body struct {
	Buffers [][]byte
	Size    int64  // sum of the buffers' lengths
	CRC32C  uint32 // Castagnoli, of the concatenation
}

// Bucket is one bucket, or the part of one under a prefix. Keys are relative, slash-separated, without a leading
// slash (CheckKey), and no key is the directory part of another. Implementations are safe for concurrent use, honour ctx,
// and do not retry: callers do.
type Bucket interface {
	// Put creates the object, never replaces one. It returns nil only when the object is durable. Errors:
	// ErrAlreadyExists, ErrConflict, ErrThrottled, ErrChecksum, ErrFull, ErrReadOnly, ErrOutcomeUnknown, or the context's. A bucket that
	// sends a request more than once (hedge) takes an object with exactly these bytes for its own. After Put
	// returned, no goroutine reads the buffers any more, whatever the outcome.
	Put(ctx context.Context, key string, body Body) error

	// Get opens [offset, offset+length) of the object; length < 0 means to its end. A negative offset means the object's
	// last -offset bytes, all of them if it has fewer; length must be negative then. A range that starts at or past
	// the end is an error, unless it is the whole of an empty object; one that ends past it is cut. A length of 0 is
	// ErrRange too. The caller closes the reader; ctx must live until then. Errors: ErrNotFound, ErrRange,
	// ErrThrottled.
	Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error)

	// Head describes the object, with its checksum where the store keeps one. Errors: ErrNotFound, ErrThrottled.
	Head(ctx context.Context, key string) (Info, error)

	// List gives the objects under prefix with keys greater than startAfter in key order, at most limit of them
	// (1 to MaxKeys). It is strongly consistent. An empty result means there are no more; a short one does not.
	List(ctx context.Context, prefix, startAfter string, limit int) ([]Info, error)

	// Delete deletes the objects of at most MaxKeys keys. Keys that do not exist are no error. A *DeleteError names the keys
	// whose objects the store refused to delete, and all others are deleted. After any other error, each object may be deleted
	// or not.
	Delete(ctx context.Context, keys []string) error

	// Create begins an upload in parts, for objects that do not fit into memory. The key may be taken already, and other
	// uploads of it may be under way: Complete decides. Errors: ErrThrottled, ErrOutcomeUnknown (an upload may be left
	// behind, see Uploads), or the context's.
	Create(ctx context.Context, key string) (Upload, error)

	// Uploads gives the uploads under prefix that were neither completed nor aborted, of keys greater than startAfter, in
	// key order, at most limit of them (1 to MaxKeys). An empty result means there are no more; a short one does not.
	// Uploads of one key are shown together, or, where they do not fit, the rest when those shown are gone.
	Uploads(ctx context.Context, prefix, startAfter string, limit int) ([]UploadInfo, error)

	// AbortUpload drops an upload that Uploads gave. Errors as for Upload.Abort.
	AbortUpload(ctx context.Context, upload UploadInfo) error

	// Now is the store's clock (its Date header), for clock-skew checks.
	Now(ctx context.Context) (time.Time, error)

	// Close releases connections; requests under way fail.
	Close() error
}
