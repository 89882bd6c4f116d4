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
	// SectionBytes is the largest payload of a section: the writer writes no larger one, and Decode reads no larger one. A
	// section above the target holds one large record.
	SectionBytes = 64 << 20
)

// SplitVersion is the version of the state from which on a record with a list is closed at sectionTarget, however few
// items it has. Before, the groups of a transaction and the pending offsets of a partition are one record each. Encode
// splits such a record only where its section would exceed SectionBytes, which no earlier program could read either.
const SplitVersion = 6

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sectionWriter cuts records into sections and sums everything up. The first error sticks.
type sectionWriter struct {
	w     io.Writer
	sum   *xxhash.Digest
	buf   []byte // payload of the open section
	start int    // in buf, of the record being written
	list  recordList
	err   error

	limit  int  // most payload of a section; 0 means none
	strict bool // a record above the limit is an error
	split  bool // lists are closed at sectionTarget
}

// recordList is the list being written: records that begin alike, each with a count and its items.
type recordList struct {
	head  []byte // of each record: the tag, and the fields before the count
	most  int    // items of one record; 0 means any number
	items []byte // of the open record
	count int
	last  int // in items, of the newest item

	records int // written since beginList
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

// recordDone is called between records. A record that does not fit into the open section gets one of its own.
func (f *sectionWriter) recordDone() {
	if f.limit > 0 && len(f.buf) > f.limit && f.start > 0 {
		record := append([]byte(nil), f.buf[f.start:]...)
		f.buf = f.buf[:f.start]
		f.flush()
		f.buf = append(f.buf, record...)
	}
	if f.strict && len(f.buf) > f.limit && f.err == nil {
		f.err = fmt.Errorf("%w: %s record of %d bytes, limit %d", ErrStateTooLarge, recordTag(f.buf[0]), len(f.buf), f.limit)
	}
	if len(f.buf) >= sectionTarget {
		f.flush()
	}
	f.start = len(f.buf)
}

// beginList begins records with the given first bytes and at most so many items each; 0 means any number.
func (f *sectionWriter) beginList(most int, head ...byte) {
	f.list.head, f.list.most, f.list.records = append(f.list.head[:0], head...), most, 0
}

// listItems returns the most items of a record that had all of them before SplitVersion.
func (f *sectionWriter) listItems() int {
	if f.split {
		return itemsPerRecord
	}
	return 0
}

// itemDone is called after each item that was appended to list.items.
func (f *sectionWriter) itemDone() {
	l := &f.list
	l.count++
	if f.limit > 0 && l.count > 1 && len(f.buf)+l.size() > f.limit {
		f.writeList(l.count-1, l.last)
	}
	if l.count == l.most || f.split && len(l.items) >= sectionTarget {
		f.writeList(l.count, len(l.items))
	}
	l.last = len(l.items)
}

// endList writes what is left of the list.
func (f *sectionWriter) endList() {
	if f.list.count > 0 {
		f.writeList(f.list.count, len(f.list.items))
	}
	f.list.last = 0
}

// endWholeList is endList for a list that has a record even if it is empty.
func (f *sectionWriter) endWholeList() {
	if f.list.records == 0 && f.list.count == 0 {
		f.writeList(0, 0)
	}
	f.endList()
}

// size returns the bytes of the open record.
func (l *recordList) size() int {
	var count [binary.MaxVarintLen64]byte
	return len(l.head) + binary.PutUvarint(count[:], uint64(l.count)) + len(l.items)
}

// writeList writes the first items of the list, which take so many bytes, as one record.
func (f *sectionWriter) writeList(count, bytes int) {
	l := &f.list
	f.buf = append(f.buf, l.head...)
	f.buf = binary.AppendUvarint(f.buf, uint64(count))
	f.buf = append(f.buf, l.items[:bytes]...)
	f.recordDone()
	l.items = append(l.items[:0], l.items[bytes:]...)
	l.count -= count
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
	r     io.Reader
	limit int64 // most payload of a section
	sum   hash.Hash64
	buf   bytes.Buffer
}

// newSectionReader reads magic and version.
func newSectionReader(r io.Reader) (*sectionReader, error) {
	f := &sectionReader{r: r, limit: SectionBytes, sum: xxhash.New()}
	head, err := f.read(len(snapshotMagic) + 1)
	if err != nil {
		return nil, err
	}
	if string(head[:len(snapshotMagic)]) != snapshotMagic {
		return nil, fmt.Errorf("%w: no snapshot", ErrMalformedSnapshot)
	}
	if v := head[len(snapshotMagic)]; v != snapshotVersion {
		return nil, fmt.Errorf("%w: snapshot version %d, this program reads version %d", ErrUnsupported, v, snapshotVersion)
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
	if int64(size) > f.limit {
		return nil, fmt.Errorf("%w: %w: %d bytes, limit %d", ErrMalformedSnapshot, ErrSectionTooLarge, size, f.limit)
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
