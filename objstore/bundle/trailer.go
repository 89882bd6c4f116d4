package bundle

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/freshet-io/freshet/objstore"
)

// trailer is a bundle's end: what its last bytes say, and, once read, what they refer to.
type trailer struct {
	version     uint32
	size        int64 // of the trailer itself
	footerAt    uint32
	sections    uint32
	seekEntries uint32 // 0 in version 1
	batchesCRC  uint32
	footerCRC   uint32 // version 2
	seekCRC     uint32 // version 2

	tail []byte // footer, seek table and trailer
}

// parseTrailer takes the trailer from the end of p, which has at least trailerSize bytes.
func parseTrailer(p []byte) (trailer, error) {
	end := p[len(p)-12:]
	if string(end[4:]) != trailerMagic {
		return trailer{}, fmt.Errorf("%w: ends with %q, cut short?", ErrMalformed, end[4:])
	}
	switch version := binary.BigEndian.Uint32(end); {
	case version == Version:
		return parseTrailer1(p[len(p)-trailerSize:]), nil
	case version == Version2 && len(p) >= trailer2Size:
		return parseTrailer2(p[len(p)-trailer2Size:])
	default:
		return trailer{}, fmt.Errorf("%w: trailer of version %d in the last %d bytes", ErrMalformed, version, len(p))
	}
}

// parseTrailer1 leaves the checksum, which covers the footer too, for checkTail.
func parseTrailer1(p []byte) trailer {
	return trailer{
		version: Version, size: trailerSize,
		footerAt: binary.BigEndian.Uint32(p), sections: binary.BigEndian.Uint32(p[4:]),
		batchesCRC: binary.BigEndian.Uint32(p[8:]), footerCRC: binary.BigEndian.Uint32(p[16:]),
	}
}

func parseTrailer2(p []byte) (trailer, error) {
	stored, crc := binary.BigEndian.Uint32(p[24:]), crc32.Checksum(p[:24], objstore.Castagnoli)
	if stored != crc {
		return trailer{}, fmt.Errorf("%w: trailer has CRC-32C %08x, says %08x", ErrMalformed, crc, stored)
	}
	return trailer{
		version: Version2, size: trailer2Size,
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

// readEnd reads and checks everything behind the batches of a bundle of that size, whose header tells that version.
func readEnd(r io.ReaderAt, size int64, version uint8) (trailer, error) {
	p := make([]byte, min(trailer2Size, size))
	if err := readAt(r, p, size-int64(len(p))); err != nil {
		return trailer{}, err
	}
	t, err := parseTrailer(p)
	if err != nil {
		return trailer{}, err
	}
	if t.version != uint32(version) {
		return trailer{}, fmt.Errorf("%w: header of version %d, trailer of version %d", ErrMalformed, version, t.version)
	}
	rest := size - t.size - int64(t.footerAt)
	if t.footerAt < headerSize || rest != t.footerSize()+t.seekSize() {
		return trailer{}, fmt.Errorf("%w: footer of %d sections and %d seek entries at %d of %d bytes",
			ErrMalformed, t.sections, t.seekEntries, t.footerAt, size)
	}
	t.tail = make([]byte, rest+t.size)
	if err := readAt(r, t.tail, int64(t.footerAt)); err != nil {
		return trailer{}, err
	}
	return t, t.check()
}

// check compares the footer's checksum.
func (t *trailer) check() error {
	covered := t.footer()
	if t.version == Version {
		covered = t.tail[:t.footerSize()+16]
	}
	if crc := crc32.Checksum(covered, objstore.Castagnoli); crc != t.footerCRC {
		return fmt.Errorf("%w: footer has CRC-32C %08x, trailer says %08x", ErrMalformed, crc, t.footerCRC)
	}
	return nil
}
