package bundle

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
)

// Description is what a bundle tells about itself.
type Description struct {
	Name     id.Submission
	Kind     Kind
	Size     int64
	CRC32C   uint32 // of the whole object
	Sections []SectionDescription
	Seek     []SeekDescription // of a background job's bundle
}

// SeekDescription is an entry of the seek table: a chunk of a section.
type SeekDescription struct {
	Position     uint32 // of the chunk's first byte in the object
	Length       uint32 // bytes
	First        int64  // base offset of its first batch
	MaxTimestamp int64  // largest of its batches, ms since the epoch; -1 if none
}

// SectionDescription is a section with its batches.
type SectionDescription struct {
	Section
	Contents []BatchDescription
}

// BatchDescription is a record batch's header, and whether the batch is intact.
type BatchDescription struct {
	Position      uint32 // of its first byte in the object
	Length        uint32 // bytes, header included
	BaseOffset    int64  // as stored: the true one in a background job's bundle
	Attributes    int16
	Records       int32 // last offset delta + 1
	BaseTimestamp int64 // ms since the epoch
	MaxTimestamp  int64 // ms since the epoch
	ProducerID    int64 // -1 if not idempotent
	ProducerEpoch int16
	BaseSequence  int32
	CRC32C        uint32 // as stored, of the batch from its byte 21 on
	Intact        bool   // the stored checksum is the bytes'
}

// readBytes is how much Inspect reads at once.
const readBytes = 64 << 10

// Inspect reads the bundle of that size whole and checks every checksum and every length. Memory is bounded by what
// is there: a claimed length allocates nothing. It returns ErrMalformed (wrapped, with what was found instead),
// generation.ErrOther, or the reader's error. When only batches are broken, the description comes together with the error and says which.
func Inspect(r io.ReaderAt, size int64) (*Description, error) {
	d, trailer, err := readFrame(r, size)
	if err != nil {
		return nil, err
	}
	w := walker{r: r}
	head := make([]byte, headerSize)
	if err := readAt(r, head, 0); err != nil {
		return nil, err
	}
	whole := crc32.Checksum(head, objstore.Castagnoli)
	var broken error
	for i := range d.Sections {
		contents, err := w.section(d.Sections[i].Section)
		d.Sections[i].Contents = contents
		if err != nil {
			return nil, err
		}
		for _, b := range contents {
			if !b.Intact && broken == nil {
				broken = fmt.Errorf("%w: batch at %d of section %d does not match its checksum", ErrMalformed, b.Position, i)
			}
		}
	}
	if broken == nil && w.crc != trailer.batchesCRC {
		broken = fmt.Errorf("%w: batches have CRC-32C %08x, trailer says %08x", ErrMalformed, w.crc, trailer.batchesCRC)
	}
	if broken == nil {
		broken = checkSeek(d)
	}
	whole = objstore.CombineCRC32C(whole, w.crc, int64(trailer.footerAt)-headerSize)
	d.CRC32C = crc32.Update(whole, objstore.Castagnoli, trailer.tail)
	return d, broken
}

// readFrame reads and checks everything but the batches.
func readFrame(r io.ReaderAt, size int64) (*Description, trailer, error) {
	if size < headerSize+trailerSize || size > MaxSize {
		return nil, trailer{}, fmt.Errorf("%w: %d bytes", ErrMalformed, size)
	}
	head := make([]byte, headerSize)
	if err := readAt(r, head, 0); err != nil {
		return nil, trailer{}, err
	}
	d := &Description{Size: size}
	if err := parseHeader(d, head); err != nil {
		return nil, trailer{}, err
	}
	t, err := readEnd(r, size)
	if err != nil {
		return nil, trailer{}, err
	}
	if d.Sections, err = parseFooter(t); err != nil {
		return nil, trailer{}, err
	}
	if d.Kind == OfJob {
		err = describeSeek(d, t)
	}
	return d, t, err
}

func parseHeader(d *Description, p []byte) error {
	if string(p[:8]) != headerMagic {
		return fmt.Errorf("%w: starts with %q", ErrMalformed, p[:8])
	}
	if stored, crc := binary.BigEndian.Uint32(p[20:]), crc32.Checksum(p[:20], objstore.Castagnoli); stored != crc {
		return fmt.Errorf("%w: header has CRC-32C %08x, says %08x", ErrMalformed, crc, stored)
	}
	if err := generation.Check(p[8]); err != nil {
		return err
	}
	if d.Kind = Kind(p[9]); d.Kind != OfAgent && d.Kind != OfJob {
		return fmt.Errorf("%w: %s", ErrMalformed, d.Kind)
	}
	d.Name = id.Submission{
		Session: id.Session(binary.BigEndian.Uint32(p[12:])),
		N:       binary.BigEndian.Uint32(p[16:]),
	}
	return nil
}

// parseFooter checks that the sections cover the batches' bytes without gap or overlap.
func parseFooter(t trailer) ([]SectionDescription, error) {
	sections := make([]SectionDescription, t.sections)
	next := uint64(headerSize)
	for i := range sections {
		p := t.tail[i*entrySize:]
		s := Section{
			Position: binary.BigEndian.Uint32(p[20:]),
			Length:   binary.BigEndian.Uint32(p[24:]),
			Batches:  binary.BigEndian.Uint32(p[28:]),
		}
		copy(s.Partition.Topic[:], p)
		s.Partition.Partition = int32(binary.BigEndian.Uint32(p[16:]))
		if uint64(s.Position) != next || s.Batches == 0 || uint64(s.Length) < uint64(s.Batches)*batchHeaderSize {
			return nil, fmt.Errorf("%w: section %d has %d batches in %d bytes at %d, expected at %d",
				ErrMalformed, i, s.Batches, s.Length, s.Position, next)
		}
		next += uint64(s.Length)
		sections[i].Section = s
	}
	if next != uint64(t.footerAt) {
		return nil, fmt.Errorf("%w: sections end at %d, footer is at %d", ErrMalformed, next, t.footerAt)
	}
	return sections, nil
}

// walker reads batches in order and sums what it read.
type walker struct {
	r   io.ReaderAt
	crc uint32 // of the batches read
	buf []byte
}

func (w *walker) section(s Section) ([]BatchDescription, error) {
	var batches []BatchDescription
	at, end := int64(s.Position), int64(s.Position)+int64(s.Length)
	for at < end {
		b, err := w.batch(at, end)
		if err != nil {
			return batches, err
		}
		batches = append(batches, b)
		at += int64(b.Length)
	}
	if len(batches) != int(s.Batches) {
		return batches, fmt.Errorf("%w: section at %d has %d batches, footer says %d",
			ErrMalformed, s.Position, len(batches), s.Batches)
	}
	return batches, nil
}

func (w *walker) batch(at, end int64) (BatchDescription, error) {
	if w.buf == nil {
		w.buf = make([]byte, readBytes)
	}
	head := w.buf[:batchHeaderSize]
	if end-at < batchHeaderSize {
		return BatchDescription{}, fmt.Errorf("%w: %d bytes left for a batch at %d", ErrMalformed, end-at, at)
	}
	if err := readAt(w.r, head, at); err != nil {
		return BatchDescription{}, err
	}
	length := int64(int32(binary.BigEndian.Uint32(head[8:]))) + 12
	if head[16] != 2 || length < batchHeaderSize || length > end-at {
		return BatchDescription{}, fmt.Errorf("%w: batch at %d has magic %d and length %d, %d bytes are left",
			ErrMalformed, at, head[16], length, end-at)
	}
	b := parseBatchHeader(head)
	b.Position, b.Length = uint32(at), uint32(length)
	w.crc = crc32.Update(w.crc, objstore.Castagnoli, head)
	own := crc32.Checksum(head[batchCRCFrom:], objstore.Castagnoli)
	for pos := at + batchHeaderSize; pos < at+length; {
		p := w.buf[:min(readBytes, at+length-pos)]
		if err := readAt(w.r, p, pos); err != nil {
			return BatchDescription{}, err
		}
		w.crc = crc32.Update(w.crc, objstore.Castagnoli, p)
		own = crc32.Update(own, objstore.Castagnoli, p)
		pos += int64(len(p))
	}
	b.Intact = own == b.CRC32C
	return b, nil
}

func parseBatchHeader(p []byte) BatchDescription {
	return BatchDescription{
		BaseOffset:    int64(binary.BigEndian.Uint64(p)),
		CRC32C:        binary.BigEndian.Uint32(p[batchCRCAt:]),
		Attributes:    int16(binary.BigEndian.Uint16(p[21:])),
		Records:       int32(binary.BigEndian.Uint32(p[23:])) + 1,
		BaseTimestamp: int64(binary.BigEndian.Uint64(p[27:])),
		MaxTimestamp:  int64(binary.BigEndian.Uint64(p[35:])),
		ProducerID:    int64(binary.BigEndian.Uint64(p[43:])),
		ProducerEpoch: int16(binary.BigEndian.Uint16(p[51:])),
		BaseSequence:  int32(binary.BigEndian.Uint32(p[53:])),
	}
}

// readAt fills p; an object shorter than its size is malformed.
func readAt(r io.ReaderAt, p []byte, at int64) error {
	n, err := r.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	if errors.Is(err, io.EOF) || err == nil {
		return fmt.Errorf("%w: ends within bytes %d to %d", ErrMalformed, at, at+int64(len(p)))
	}
	return fmt.Errorf("read bundle: %w", err)
}
