package recode

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/freshet-io/freshet/kafkaproto"
)

// bounded ends with errTooLong once more than left bytes were read.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		// At the bound exactly the end may come.
		var one [1]byte
		if n, err := b.r.Read(one[:]); n == 0 {
			return 0, err
		}
		return 0, errTooLong
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	return n, err
}

// walker reads records (format 2) one after the other:
//
//	length of what follows, varint; attributes, 1 byte; timestamp delta, varlong; offset delta, varint;
//	key length, varint (-1: null), key; value length, varint, value; headers, varint, and their bytes
//
// All varints are zigzag. Only both deltas, the key's length and the overall length are looked at.
type walker struct {
	r    io.Reader
	buf  *bufio.Reader
	most int64 // bytes of the largest record that is taken; 0 is no limit
}

// record is what is looked at of one record.
type record struct {
	timestamp, offset int64 // deltas to the batch's
	hasKey            bool
}

// record reads the i-th record.
func (w *walker) record(i int32) (r record, err error) {
	if w.buf == nil {
		w.buf = bufio.NewReaderSize(w.r, 32<<10)
	}
	length, _, err := kafkaproto.ReadVarint(w.buf)
	if err != nil {
		return r, fmt.Errorf("record %d: %w", i, truncated(err))
	}
	if length < 0 {
		return r, fmt.Errorf("record %d: length %d", i, length)
	}
	if w.most > 0 && length > w.most { // before the record is decompressed
		return r, fmt.Errorf("record %d: size %d exceeds the configured maximum record size of %d", i, length, w.most)
	}
	left := length
	if _, err := w.buf.Discard(1); err != nil { // attributes
		return r, fmt.Errorf("record %d: %w", i, truncated(err))
	}
	left--
	var key int64 // its length
	for f, field := range []*int64{&r.timestamp, &r.offset, &key} {
		read := kafkaproto.ReadVarint
		if f == 0 {
			read = kafkaproto.ReadVarlong
		}
		v, n, err := read(w.buf)
		if err != nil {
			return r, fmt.Errorf("record %d: %w", i, truncated(err))
		}
		*field = v
		left -= int64(n)
	}
	if left < 0 || key < -1 || key > left {
		return r, fmt.Errorf("record %d: key of %d bytes, %d bytes left", i, key, left)
	}
	if err := w.skip(left); err != nil {
		return r, fmt.Errorf("record %d: %w", i, truncated(err))
	}
	r.hasKey = key >= 0
	return r, nil
}

// skip passes n bytes, however many a record claims.
func (w *walker) skip(n int64) error {
	for n > 0 {
		step := min(n, 1<<30)
		if _, err := w.buf.Discard(int(step)); err != nil {
			return err
		}
		n -= step
	}
	return nil
}

// end makes sure that nothing follows the last record.
func (w *walker) end() error {
	if w.buf == nil {
		return nil
	}
	if _, err := w.buf.ReadByte(); err == nil {
		return errors.New("bytes after the last record")
	} else if !errors.Is(err, io.EOF) {
		return err
	}
	return nil
}

func truncated(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
