package bundle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
	"github.com/freshet-io/freshet/objstore/resume"
)

// storedWindow is how much of an object one GET of CheckStored brings, and the memory that it takes.
const storedWindow = 4 << 20

// Verdict is what a look at a stored bundle comes to.
type Verdict uint8

// The verdicts.
const (
	Unreadable Verdict = iota // nobody knows: the store does not answer as it should
	Intact
	Missing // there is no such object, or not all of it
	Broken  // it is not what was written
	Later   // it is of a later version than this program knows: nobody knows whether it is intact
)

// Finding is what CheckStored found.
type Finding struct {
	Verdict Verdict
	What    string // for people; empty if it is intact
	Read    int64  // bytes
}

// CheckStored reads the bundle of that name and size from the store and compares every checksum in it, in 4 MiB of
// memory. limit is waited for before n bytes are read, at most 4 MiB. Requests that fail or hang are made again a few times.
func CheckStored(
	ctx context.Context, b objstore.Bucket, key string, name id.Bundle, size int64, limit func(ctx context.Context, n int) error,
) (f Finding) {
	r := &storedReader{ctx: ctx, bucket: b, key: key, size: size, limit: limit}
	defer func() { f.Read = r.read }()
	got, err := Check(r, size)
	switch {
	case errors.Is(err, ErrMalformed) || errors.Is(err, objstore.ErrChecksum):
		return Finding{Verdict: Broken, What: err.Error()}
	case errors.Is(err, ErrVersion):
		return Finding{Verdict: Later, What: err.Error()}
	case errors.Is(err, objstore.ErrNotFound):
		return Finding{Verdict: Missing, What: "missing"}
	case errors.Is(err, objstore.ErrRange):
		return Finding{Verdict: Missing, What: fmt.Sprintf("less than the %d bytes expected", size)}
	case err != nil:
		return Finding{What: err.Error()}
	case got != name.Submission():
		return Finding{Verdict: Broken, What: fmt.Sprintf("it is bundle %d/%d", got.Session, got.N)}
	default:
		return Finding{Verdict: Intact}
	}
}

// storedReader reads an object by ranges of storedWindow. It implements io.ReaderAt for one reader at a time.
type storedReader struct {
	ctx    context.Context //nolint:containedctx // an io.ReaderAt has none
	bucket objstore.Bucket
	key    string
	size   int64
	limit  func(ctx context.Context, n int) error

	from int64
	data []byte // of the object from there on
	read int64
}

// ReadAt implements io.ReaderAt.
func (r *storedReader) ReadAt(p []byte, at int64) (n int, err error) {
	for n < len(p) {
		if at >= r.size {
			return n, io.EOF
		}
		if at < r.from || at >= r.from+int64(len(r.data)) {
			if err := r.fetch(at); err != nil {
				return n, err
			}
		}
		c := copy(p[n:], r.data[at-r.from:])
		n, at = n+c, at+int64(c)
	}
	return n, nil
}

func (r *storedReader) fetch(at int64) error {
	want := min(storedWindow, r.size-at)
	if err := r.limit(r.ctx, int(want)); err != nil {
		return fmt.Errorf("wait to read: %w", err)
	}
	body := resume.New(r.ctx, r.bucket, r.key, at, want)
	defer body.Close()
	r.data = slices.Grow(r.data[:0], int(want))[:want]
	n, err := io.ReadFull(body, r.data)
	r.from, r.data, r.read = at, r.data[:n], r.read+int64(n)
	return err
}
