package metadata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"runtime"

	"github.com/cespare/xxhash/v2"
)

const (
	snapshotMagic   = "frshsnap"
	snapshotVersion = 1
	// sectionTarget is the payload at which a section is closed; sections end where records end.
	sectionTarget = 64 << 10
	// sectionMax bounds a section that is read: the target and one record, of which the largest is a session's result.
	sectionMax = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sectionWriter cuts records into sections and sums everything up. The first error sticks.
type sectionWriter struct {
	w   io.Writer
	sum *xxhash.Digest
	buf []byte // payload of the open section
	err error
}

func newSectionWriter(w io.Writer) *sectionWriter {
	f := &sectionWriter{w: w, sum: xxhash.New(), buf: make([]byte, 0, sectionTarget+4096)}
	f.write([]byte(snapshotMagic))
	f.write([]byte{snapshotVersion})
	return f
}

func (f *sectionWriter) write(p []byte) {
	if f.err != nil {
		return
	}
	_, _ = f.sum.Write(p) // never fails
	_, f.err = f.w.Write(p)
}

// recordDone is called between records.
func (f *sectionWriter) recordDone() {
	if len(f.buf) >= sectionTarget {
		f.flush()
	}
}

func (f *sectionWriter) flush() {
	if len(f.buf) == 0 {
		return
	}
	var head [8]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(f.buf)))
	binary.LittleEndian.PutUint32(head[4:], crc32.Checksum(f.buf, castagnoli))
	f.write(head[:])
	f.write(f.buf)
	f.buf = f.buf[:0]
	// A walk is hundreds of milliseconds of CPU; without this, commits on a busy machine wait out time slices of 10 ms.
	runtime.Gosched()
}

// end closes the snapshot and gives the hash of everything.
func (f *sectionWriter) end() (uint64, error) {
	f.flush()
	f.write(make([]byte, 4))
	total := f.sum.Sum64()
	f.write(binary.LittleEndian.AppendUint64(nil, total))
	if f.err != nil {
		return 0, fmt.Errorf("write snapshot: %w", f.err)
	}
	return total, nil
}

// sectionReader gives the sections of a snapshot one by one.
type sectionReader struct {
	r   io.Reader
	sum hash.Hash64
	buf bytes.Buffer
}

// newSectionReader reads magic and version.
func newSectionReader(r io.Reader) (*sectionReader, error) {
	f := &sectionReader{r: r, sum: xxhash.New()}
	head, err := f.read(len(snapshotMagic) + 1)
	if err != nil {
		return nil, err
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("%w: no snapshot", ErrMalformedSnapshot)
	}
	if v := head[len(snapshotMagic)]; v != snapshotVersion {
		return nil, fmt.Errorf("%w: snapshot version %d", ErrUnsupported, v)
	}
	return f, nil
}

// read reads n bytes, valid until the next read; memory grows only as bytes arrive.
func (f *sectionReader) read(n int) ([]byte, error) {
	f.buf.Reset()
	if _, err := io.CopyN(&f.buf, f.r, int64(n)); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: cut", ErrMalformedSnapshot)
		}
		return nil, fmt.Errorf("read snapshot: %w", err)
	}
	f.sum.Write(f.buf.Bytes())
	return f.buf.Bytes(), nil
}

// next gives the payload of the next section, valid until the following call; nil after the last one, whose closing
// hash it has compared.
func (f *sectionReader) next() ([]byte, error) {
	head, err := f.read(4)
	if err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head)
	if size == 0 {
		return nil, f.end()
	}
	if size > sectionMax {
		return nil, fmt.Errorf("%w: section of %d bytes", ErrMalformedSnapshot, size)
	}
	if head, err = f.read(4); err != nil {
		return nil, err
	}
	sum := binary.LittleEndian.Uint32(head)
	payload, err := f.read(int(size))
	if err != nil {
		return nil, err
	}
	if got := crc32.Checksum(payload, castagnoli); got != sum {
		return nil, fmt.Errorf("%w: section checksum %08x, stored %08x", ErrMalformedSnapshot, got, sum)
	}
	return payload, nil
}

func (f *sectionReader) end() error {
	want := f.sum.Sum64()
	tail, err := f.read(8)
	if err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint64(tail); got != want {
		return fmt.Errorf("%w: hash %016x, stored %016x", ErrMalformedSnapshot, want, got)
	}
	return nil
}
