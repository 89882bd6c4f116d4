package bundle

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"sort"

	"github.com/freshet-io/freshet/objstore"
)

// SeekBytes is the least length of a chunk: an entry of the seek table stands for the batches from its own on until one
// ends SeekBytes or more after the beginning, or the section does.
const SeekBytes = 1 << 20

// SeekTail is how many bytes ReadSeek asks for first. They hold the seek table of every bundle of up to 1 GiB.
const SeekTail = 64 << 10

// Seek is a bundle's seek table: where in long sections to begin reading. It is immutable.
type Seek struct {
	entries []seekEntry // ascending by position
}

// seekEntry is one chunk: the batches at [position, position+length).
type seekEntry struct {
	position     uint32
	length       uint32
	first        int64 // base offset of the first batch
	maxTimestamp int64 // the largest of the chunk's batches, ms; -1 if none
}

func (e *seekEntry) end() uint64 { return uint64(e.position) + uint64(e.length) }

// ReadSeek reads the seek table of the bundle with that key by one GET, or two if the table is longer than SeekTail. An
// agent's bundle has an empty one. Errors: ErrMalformed, generation.ErrOther, those of Get.
func ReadSeek(ctx context.Context, b objstore.Bucket, key string) (*Seek, error) {
	for want := int64(SeekTail); ; {
		tail, err := readTail(ctx, b, key, want)
		if err != nil {
			return nil, fmt.Errorf("read seek table: %w", err)
		}
		s, need, err := ParseSeek(tail)
		if err != nil {
			return nil, fmt.Errorf("read seek table of %s: %w", key, err)
		}
		if s != nil {
			return s, nil
		}
		if need <= want || int64(len(tail)) < want {
			return nil, fmt.Errorf("read seek table of %s: %w: %d bytes, want %d", key, ErrMalformed, len(tail), need)
		}
		want = need
	}
}

func readTail(ctx context.Context, b objstore.Bucket, key string, n int64) ([]byte, error) {
	r, err := b.Get(ctx, key, -n, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, n))
}

// ParseSeek takes the seek table out of a bundle's last bytes. If they are too few, the table is nil and need says how
// many it takes. Errors: ErrMalformed.
func ParseSeek(tail []byte) (s *Seek, need int64, err error) {
	if len(tail) < trailerSize {
		return nil, 0, fmt.Errorf("%w: a tail of %d bytes", ErrMalformed, len(tail))
	}
	t, err := parseTrailer(tail)
	if err != nil {
		return nil, 0, err
	}
	need = trailerSize + int64(t.seekEntries)*seekEntrySize
	if int64(len(tail)) < need {
		return nil, need, nil
	}
	table := tail[int64(len(tail))-need : len(tail)-trailerSize]
	s, err = parseSeekTable(t, table)
	return s, need, err
}

func parseSeekTable(t trailer, table []byte) (*Seek, error) {
	if crc := crc32.Checksum(table, objstore.Castagnoli); crc != t.seekCRC {
		return nil, fmt.Errorf("%w: seek table has CRC-32C %08x, trailer says %08x", ErrMalformed, crc, t.seekCRC)
	}
	s := &Seek{entries: make([]seekEntry, len(table)/seekEntrySize)}
	next := uint32(headerSize)
	for i := range s.entries {
		p := table[i*seekEntrySize:]
		e := seekEntry{
			position:     binary.BigEndian.Uint32(p),
			length:       binary.BigEndian.Uint32(p[4:]),
			first:        int64(binary.BigEndian.Uint64(p[8:])),
			maxTimestamp: int64(binary.BigEndian.Uint64(p[16:])),
		}
		if e.position < next || e.length == 0 || e.end() > uint64(t.footerAt) {
			return nil, fmt.Errorf("%w: seek entry %d at [%d, %d), after %d and before %d",
				ErrMalformed, i, e.position, e.end(), next, t.footerAt)
		}
		next = uint32(e.end())
		s.entries[i] = e
	}
	return s, nil
}

// Len is the number of entries, 24 bytes of memory each.
func (s *Seek) Len() int { return len(s.entries) }

// Offset gives where in the extent at [position, position+length) to begin reading for an offset: the last batch
// boundary known before which all batches of the extent end below the offset.
func (s *Seek) Offset(position, length uint32, offset int64) uint32 {
	from, to := s.within(position, length)
	// Entries of the extent whose first batch begins at or below the offset.
	n := sort.Search(to-from, func(i int) bool { return s.entries[from+i].first > offset })
	if n == 0 {
		return position
	}
	return s.entries[from+n-1].position
}

// Time gives where in the extent at [position, position+length) to begin reading for the first batch whose max timestamp
// is ts or later: none lies before. It gives the extent's end if none lies in the extent at all.
func (s *Seek) Time(position, length uint32, ts int64) uint32 {
	from, to := s.within(position, length)
	at := position
	if from > 0 && s.entries[from-1].end() > uint64(position) { // a chunk that begins before the extent
		if s.entries[from-1].maxTimestamp >= ts {
			return position
		}
		at = uint32(min(s.entries[from-1].end(), uint64(position)+uint64(length)))
	}
	for i := from; i < to && s.entries[i].position == at; i++ {
		if s.entries[i].maxTimestamp >= ts {
			return at
		}
		at = uint32(min(s.entries[i].end(), uint64(position)+uint64(length)))
	}
	return at // nothing is known of what follows, or there is nothing
}

// within gives the entries [from, to) that begin in the extent.
func (s *Seek) within(position, length uint32) (from, to int) {
	end := uint64(position) + uint64(length)
	from = sort.Search(len(s.entries), func(i int) bool { return s.entries[i].position >= position })
	to = sort.Search(len(s.entries), func(i int) bool { return uint64(s.entries[i].position) >= end })
	return from, to
}
