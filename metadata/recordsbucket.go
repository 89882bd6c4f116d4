package metadata

import (
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/metadata/internal/wire"
)

// MaxBucketID is the maximum length of a bucket's id in bytes.
const MaxBucketID = 64

// UseBucket makes the bucket with an id the one of the records. Agents with another bucket get no session. The owner proposes UseBucket from
// version 3 of the state on, after an agent has found the records in its bucket. Result: nil, ErrInvalidBucket, or ErrBucketInUse.
type UseBucket struct {
	Bucket string // id in the marker of the bucket
}

func (c *UseBucket) appendBody(dst []byte) []byte { return wire.AppendString(dst, c.Bucket) }

func (c *UseBucket) readBody(w *wire.Reader) { c.Bucket = w.String() }

func (s *machine) useBucket(c *UseBucket, _ *Effects) error {
	if c.Bucket == "" || len(c.Bucket) > MaxBucketID {
		return ErrInvalidBucket
	}
	if c.Bucket != s.bucket && s.HasOpenSession() {
		return ErrBucketInUse
	}
	s.bucket = c.Bucket
	return nil
}

// RecordsBucket returns the id of the bucket with the records. It is "" before UseBucket.
func (s *machine) RecordsBucket() string { return s.bucket }

// HasOpenSession reports whether an agent session is open. It takes time proportional to the number of sessions.
func (s *machine) HasOpenSession() (open bool) {
	s.sessions.Scan(func(_ id.Session, e *session) bool {
		open = !e.closed
		return !open
	})
	return open
}

func (s *machine) encodeBucket(f *sectionWriter) {
	if s.bucket == "" {
		return
	}
	f.buf = wire.AppendString(append(f.buf, byte(recordBucket)), s.bucket)
	f.recordDone()
}

func (d *snapshotDecoder) readBucket(w *wire.Reader) { d.s.bucket = w.String() }
