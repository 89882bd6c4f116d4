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

	"github.com/freshet-io/freshet/internal/generation"
)

const (
	snapshotMagic = "frshsnap" // the generation follows
	// sectionTarget is the payload at which a section is closed; sections end where records end.
	sectionTarget = 64 << 10
)

// SectionBytes is the largest payload of a section: the writer writes no larger one, and Decode reads no larger one. A section
// above the target holds one large record. No command that an owner lets into the log makes a larger one; tests lower it.
var SectionBytes = 64 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sectionWriter cuts records into sections and sums everything up. The first error sticks. The table is in the form of
// internal/bytetable, and testdata/sections.golden has an example.
//
// Snapshot:
//
//	field        form          meaning
//	magic        8 bytes       = "frshsnap"
//	generation   1 byte        = generation.Number
//	per section and once more, until length = 0:
//	  length     u32 LE        of the payload, at most SectionBytes; 0 after the last section
//	  if length:
//	    crc      u32 LE        = CRC-32C of the payload
//	    payload  length bytes  whole records (testdata/records)
//	hash         u64 LE        = xxhash64 of everything before; State.Hash
type sectionWriter struct {
	w     io.Writer
	sum   *xxhash.Digest
	buf   []byte // payload of the open section
	start int    // in buf, of the record being written
	list  recordList
	err   error

	strict bool // a record above SectionBytes is an error
}

// recordList is the list being written: records that begin alike, each with a count and its items.
type recordList struct {
	head  []byte // of each record: the tag, and the fields before the count
	items []byte // of the open record
	count int

	records int // written since beginList
}

func newSectionWriter(w io.Writer) *sectionWriter {
	f := &sectionWriter{w: w, sum: xxhash.New(), buf: make([]byte, 0, sectionTarget+4096)}
	f.write([]byte(snapshotMagic))
	f.write([]byte{generation.Number})
	return f
}

func (f *sectionWriter) write(p []byte) {
	if f.err != nil {
		return
	}
	_, _ = f.sum.Write(p) // never fails
	_, f.err = f.w.Write(p)
}

// recordDone is called between records. A record that does not fit into the open section gets one of its own.
func (f *sectionWriter) recordDone() {
	if len(f.buf) > SectionBytes && f.start > 0 {
		record := append([]byte(nil), f.buf[f.start:]...)
		f.buf = f.buf[:f.start]
		f.flush()
		f.buf = append(f.buf, record...)
	}
	if f.strict && len(f.buf) > SectionBytes && f.err == nil {
		f.err = fmt.Errorf("%w: %s record of %d bytes, limit %d", ErrStateTooLarge, recordTag(f.buf[0]), len(f.buf), SectionBytes)
	}
	if len(f.buf) >= sectionTarget {
		f.flush()
	}
	f.start = len(f.buf)
}

// beginList begins records with the given first bytes.
func (f *sectionWriter) beginList(head ...byte) {
	f.list.head, f.list.records = append(f.list.head[:0], head...), 0
}

// itemDone is called after each item that was appended to list.items. An item is far smaller than SectionBytes.
func (f *sectionWriter) itemDone() {
	f.list.count++
	if f.list.count == itemsPerRecord || len(f.list.items) >= sectionTarget {
		f.writeList()
	}
}

// endList writes what is left of the list.
func (f *sectionWriter) endList() {
	if f.list.count > 0 {
		f.writeList()
	}
}

// endWholeList is endList for a list that has a record even if it is empty.
func (f *sectionWriter) endWholeList() {
	if f.list.records == 0 && f.list.count == 0 {
		f.writeList()
	}
	f.endList()
}

// writeList writes the open record of the list.
func (f *sectionWriter) writeList() {
	l := &f.list
	f.buf = append(f.buf, l.head...)
	f.buf = binary.AppendUvarint(f.buf, uint64(l.count))
	f.buf = append(f.buf, l.items...)
	f.recordDone()
	l.items, l.count = l.items[:0], 0
	l.records++
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

// newSectionReader reads magic and generation.
func newSectionReader(r io.Reader) (*sectionReader, error) {
	f := &sectionReader{r: r, sum: xxhash.New()}
	head, err := f.read(len(snapshotMagic) + 1)
	if err != nil {
		return nil, err
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("%w: no snapshot", ErrMalformedSnapshot)
	}
	if err := generation.Check(head[len(snapshotMagic)]); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
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
	runtime.Gosched() // as in sectionWriter.flush: the owner reads its own snapshots back
	head, err := f.read(4)
	if err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(head)
	if size == 0 {
		return nil, f.end()
	}
	if int64(size) > int64(SectionBytes) {
		return nil, fmt.Errorf("%w: section of %d bytes, limit %d", ErrMalformedSnapshot, size, SectionBytes)
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
