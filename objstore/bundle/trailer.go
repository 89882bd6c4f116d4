package bundle

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/objstore"
)

// trailer is a bundle's end: what its last bytes say, and, once read, what they refer to.
type trailer struct {
	footerAt    uint32
	sections    uint32
	seekEntries uint32
	batchesCRC  uint32
	footerCRC   uint32
	seekCRC     uint32

	tail []byte // footer, seek table and trailer
}

// appendTrailer closes a tail of a footer and a seek table, which begins at seek.
func appendTrailer(tail []byte, seek int, t trailer) []byte {
	at := len(tail)
	tail = binary.BigEndian.AppendUint32(tail, t.footerAt)
	tail = binary.BigEndian.AppendUint32(tail, t.sections)
	tail = binary.BigEndian.AppendUint32(tail, t.seekEntries)
	tail = binary.BigEndian.AppendUint32(tail, t.batchesCRC)
	tail = binary.BigEndian.AppendUint32(tail, crc32.Checksum(tail[:seek], objstore.Castagnoli))
	tail = binary.BigEndian.AppendUint32(tail, crc32.Checksum(tail[seek:at], objstore.Castagnoli))
	tail = append(tail, generation.Number, 0, 0, 0)
	tail = binary.BigEndian.AppendUint32(tail, crc32.Checksum(tail[at:], objstore.Castagnoli))
	return append(tail, trailerMagic...)
}

// parseTrailer takes the trailer from the end of p, which has at least trailerSize bytes. Errors: ErrMalformed, generation.ErrOther.
func parseTrailer(p []byte) (trailer, error) {
	p = p[len(p)-trailerSize:]
	if string(p[32:]) != trailerMagic {
		return trailer{}, fmt.Errorf("%w: ends with %q, cut short?", ErrMalformed, p[32:])
	}
	if stored, crc := binary.BigEndian.Uint32(p[28:]), crc32.Checksum(p[:28], objstore.Castagnoli); stored != crc {
		return trailer{}, fmt.Errorf("%w: trailer has CRC-32C %08x, says %08x", ErrMalformed, crc, stored)
	}
	if err := generation.Check(p[24]); err != nil {
		return trailer{}, err
	}
	return trailer{
		footerAt: binary.BigEndian.Uint32(p), sections: binary.BigEndian.Uint32(p[4:]),
		seekEntries: binary.BigEndian.Uint32(p[8:]), batchesCRC: binary.BigEndian.Uint32(p[12:]),
		footerCRC: binary.BigEndian.Uint32(p[16:]), seekCRC: binary.BigEndian.Uint32(p[20:]),
	}, nil
}

func (t *trailer) footerSize() int64 { return int64(t.sections) * entrySize }

func (t *trailer) seekSize() int64 { return int64(t.seekEntries) * seekEntrySize }

// footer and seek are the parts of tail.
func (t *trailer) footer() []byte { return t.tail[:t.footerSize()] }

func (t *trailer) seek() []byte { return t.tail[t.footerSize() : t.footerSize()+t.seekSize()] }

// readEnd reads and checks everything behind the batches of a bundle of that size.
func readEnd(r io.ReaderAt, size int64) (trailer, error) {
	p := make([]byte, trailerSize)
	if err := readAt(r, p, size-trailerSize); err != nil {
		return trailer{}, err
	}
	t, err := parseTrailer(p)
	if err != nil {
		return trailer{}, err
	}
	rest := size - trailerSize - int64(t.footerAt)
	if t.footerAt < headerSize || rest != t.footerSize()+t.seekSize() {
		return trailer{}, fmt.Errorf("%w: footer of %d sections and %d seek entries at %d of %d bytes",
			ErrMalformed, t.sections, t.seekEntries, t.footerAt, size)
	}
	t.tail = make([]byte, rest+trailerSize)
	if err := readAt(r, t.tail, int64(t.footerAt)); err != nil {
		return trailer{}, err
	}
	if crc := crc32.Checksum(t.footer(), objstore.Castagnoli); crc != t.footerCRC {
		return trailer{}, fmt.Errorf("%w: footer has CRC-32C %08x, trailer says %08x", ErrMalformed, crc, t.footerCRC)
	}
	return t, nil
}
