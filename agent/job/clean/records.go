package clean

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/freshet-io/freshet/agent/recode"
	"github.com/freshet-io/freshet/kafkaproto"
)

// record is what cleaning looks at of a record.
type record struct {
	offset    int64
	timestamp int64 // ms
	key       digest
	hasKey    bool
	hasValue  bool
}

// opener walks the records of one batch after the other (format: kafkaproto.Record) and holds none of them.
type opener struct {
	codecs   recode.Codecs
	maxBytes int64 // that records of one batch may decompress to
	buf      *bufio.Reader
	hash     hash.Hash

	source     io.ReadCloser // of the batch at hand
	batch      kafkaproto.RecordBatch
	next       int64 // least offset delta that the next record may have
	attributes byte  // of the record at hand, as the following
	timestamp  int64
	delta      int64
	left       int64 // bytes after the offset delta
}

// bufferBytes is the size of buffers for streams.
const bufferBytes = 64 << 10

func newOpener(maxBytes int64) *opener {
	return &opener{maxBytes: maxBytes, buf: bufio.NewReaderSize(nil, bufferBytes), hash: sha256.New()}
}

// open begins with the batch's first record; close ends it, and comes before anything is stored. Errors: *recordsError; the
// context's.
func (o *opener) open(ctx context.Context, b kafkaproto.RecordBatch) error {
	r, err := o.codecs.Reader(ctx, b, o.maxBytes)
	if err != nil {
		return unreadable(ctx, err)
	}
	o.source = r
	o.buf.Reset(r)
	o.batch, o.next = b, 0
	return nil
}

// close gives back what the batch at hand took.
func (o *opener) close() {
	o.buf.Reset(nil)
	_ = o.source.Close()
	o.source = nil
}

// each calls do with the batch's records in order. Errors: *recordsError if they are not what the header says; the
// context's.
func (o *opener) each(ctx context.Context, b kafkaproto.RecordBatch, do func(i int, r *record) (more bool)) error {
	if err := o.open(ctx, b); err != nil {
		return err
	}
	defer o.close()
	if err := o.walk(do); err != nil {
		return unreadable(ctx, err)
	}
	return nil
}

// unreadable returns the error of a batch that cannot be read, or the context's if it has ended.
func unreadable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return &recordsError{err: err}
}

func (o *opener) walk(do func(i int, r *record) (more bool)) error {
	var r record
	for i := range int(o.batch.RecordCount()) {
		err := o.head()
		if err == nil {
			err = o.body(&r)
		}
		if err != nil {
			return fmt.Errorf("record %d of %d: %w", i, o.batch.RecordCount(), truncated(err))
		}
		if !do(i, &r) {
			return nil
		}
	}
	if _, err := o.buf.ReadByte(); err == nil {
		return errors.New("bytes after the last record")
	} else if !errors.Is(err, io.EOF) {
		return fmt.Errorf("after the last record: %w", err)
	}
	return nil
}

// head reads what comes before a record's key.
func (o *opener) head() error {
	length, _, err := kafkaproto.ReadVarint(o.buf)
	if err != nil {
		return err
	}
	if o.attributes, err = o.buf.ReadByte(); err != nil {
		return err
	}
	timestamp, n, err := kafkaproto.ReadVarlong(o.buf)
	if err != nil {
		return err
	}
	delta, k, err := kafkaproto.ReadVarint(o.buf)
	if err != nil {
		return err
	}
	o.left = length - 1 - int64(n) - int64(k)
	if o.left < 0 || delta < o.next || delta > int64(o.batch.LastOffsetDelta()) {
		return fmt.Errorf("length %d, offset delta %d after %d of at most %d", length, delta, o.next-1, o.batch.LastOffsetDelta())
	}
	o.delta, o.next = delta, delta+1
	o.timestamp = o.batch.BaseTimestamp() + timestamp
	if o.batch.LogAppendTime() {
		o.timestamp = o.batch.MaxTimestamp()
	}
	return nil
}

// body reads the rest of the record at hand.
func (o *opener) body(r *record) error {
	*r = record{offset: o.batch.BaseOffset() + o.delta, timestamp: o.timestamp}
	size, err := o.sized()
	if err != nil {
		return err
	}
	if r.hasKey = size >= 0; r.hasKey {
		if err := o.digest(size, &r.key); err != nil {
			return err
		}
		o.left -= size
	}
	size, err = o.sized()
	if err != nil {
		return err
	}
	r.hasValue = size >= 0
	return o.skip()
}

// sized reads a length of -1 or more that fits in the record.
func (o *opener) sized() (int64, error) {
	size, n, err := kafkaproto.ReadVarint(o.buf)
	if err != nil {
		return 0, err
	}
	o.left -= int64(n)
	if size < -1 || size > o.left {
		return 0, fmt.Errorf("field of %d bytes, %d left", size, o.left)
	}
	return size, nil
}

func (o *opener) digest(size int64, to *digest) error {
	if size <= int64(o.buf.Size()) {
		p, err := o.buf.Peek(int(size))
		if err != nil {
			return err
		}
		sum := sha256.Sum256(p)
		copy(to[:], sum[:])
		_, err = o.buf.Discard(len(p))
		return err
	}
	o.hash.Reset()
	if _, err := io.CopyN(o.hash, o.buf, size); err != nil {
		return err
	}
	var sum [sha256.Size]byte
	copy(to[:], o.hash.Sum(sum[:0]))
	return nil
}

// skip passes the rest of the record, however much it claims to be.
func (o *opener) skip() error {
	for o.left > 0 {
		n, err := o.buf.Discard(int(min(o.left, 1<<30)))
		if err != nil {
			return err
		}
		o.left -= int64(n)
	}
	return nil
}

// copyTo writes the rest of the record.
func (o *opener) copyTo(w io.Writer) error {
	for o.left > 0 {
		p, err := o.buf.Peek(int(min(o.left, int64(o.buf.Size()))))
		if err != nil {
			return err
		}
		if _, err := w.Write(p); err != nil {
			return err
		}
		if _, err := o.buf.Discard(len(p)); err != nil {
			return err
		}
		o.left -= int64(len(p))
	}
	return nil
}

// truncated: within a record the end is none.
func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
