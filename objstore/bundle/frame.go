package bundle

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/freshet-io/freshet/internal/generation"
	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
)

// frame is what a background job's bundle has around its batches, as it grows.
type frame struct {
	sections []Section
	chunks   []seekEntry // of the long sections, and of the last one whatever its length
	inLast   int         // how many chunks are the last section's
	next     int64       // least base offset of the section's next batch
	at       int64       // where the next batch goes
	header   uint32      // CRC-32C of the header
}

// begin gives the header.
func (f *frame) begin(name id.Submission) []byte {
	header := appendHeader(make([]byte, 0, headerSize), name, OfJob)
	f.at = headerSize
	f.header = crc32.Checksum(header, objstore.Castagnoli)
	return header
}

func appendHeader(dst []byte, name id.Submission, kind Kind) []byte {
	at := len(dst)
	dst = append(dst, headerMagic...)
	dst = append(dst, generation.Number, byte(kind), 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(name.Session))
	dst = binary.BigEndian.AppendUint32(dst, name.N)
	return binary.BigEndian.AppendUint32(dst, crc32.Checksum(dst[at:], objstore.Castagnoli))
}

// add counts a batch in and gives its position.
func (f *frame) add(partition id.TopicPartition, batch []byte) (position uint32, err error) {
	if len(batch) < batchHeaderSize {
		return 0, ErrShortBatch
	}
	b := parseBatchHeader(batch)
	begins, err := f.section(partition, b.BaseOffset)
	if err != nil {
		return 0, err
	}
	// At most one section and one chunk come with it.
	if f.size()+int64(len(batch))+entrySize+2*seekEntrySize > MaxSize {
		return 0, ErrTooLarge
	}
	position = uint32(f.at)
	if begins {
		f.dropLoneChunk()
		f.sections = append(f.sections, Section{Partition: partition, Position: position})
		f.inLast = 0
	}
	section := &f.sections[len(f.sections)-1]
	section.Length += uint32(len(batch))
	section.Batches++
	f.chunk(begins, position, uint32(len(batch)), b)
	f.next = b.BaseOffset + int64(b.Records)
	f.at += int64(len(batch))
	return position, nil
}

// section tells whether the batch begins a section, or is out of order.
func (f *frame) section(partition id.TopicPartition, base int64) (begins bool, err error) {
	if len(f.sections) == 0 {
		return true, nil
	}
	last := f.sections[len(f.sections)-1].Partition
	switch order := partition.Compare(last); {
	case order < 0:
		return false, fmt.Errorf("%w: partition %s after %s", ErrOrder, partition, last)
	case order == 0 && base < f.next:
		return false, fmt.Errorf("%w: offset %d of partition %s before %d", ErrOrder, base, partition, f.next)
	default:
		return order > 0, nil
	}
}

// chunk adds the batch to the chunk that is open, or begins one.
func (f *frame) chunk(begins bool, position, length uint32, b BatchDescription) {
	if begins || f.chunks[len(f.chunks)-1].length >= SeekBytes {
		f.chunks = append(f.chunks, seekEntry{position: position, first: b.BaseOffset, maxTimestamp: -1})
		f.inLast++
	}
	c := &f.chunks[len(f.chunks)-1]
	c.length += length
	c.maxTimestamp = max(c.maxTimestamp, b.MaxTimestamp)
}

// dropLoneChunk forgets the last section's chunk if it is the only one.
func (f *frame) dropLoneChunk() {
	if f.inLast == 1 {
		f.chunks = f.chunks[:len(f.chunks)-1]
	}
}

// size is that of the bundle if it ended now.
func (f *frame) size() int64 {
	chunks := len(f.chunks)
	if f.inLast == 1 {
		chunks--
	}
	return f.at + int64(len(f.sections))*entrySize + int64(chunks)*seekEntrySize + trailerSize
}

// end gives footer, seek table and trailer. crc is that of the header and all batches.
func (f *frame) end(crc uint32) []byte {
	f.dropLoneChunk()
	f.inLast = 0
	// What the header adds to the checksum is taken out again.
	batches := crc ^ objstore.CombineCRC32C(f.header, 0, f.at-headerSize)
	tail := make([]byte, 0, f.size()-f.at)
	for _, s := range f.sections {
		tail = appendSection(tail, s)
	}
	footer := len(tail)
	for _, c := range f.chunks {
		tail = binary.BigEndian.AppendUint32(tail, c.position)
		tail = binary.BigEndian.AppendUint32(tail, c.length)
		tail = binary.BigEndian.AppendUint64(tail, uint64(c.first))
		tail = binary.BigEndian.AppendUint64(tail, uint64(c.maxTimestamp))
	}
	return appendTrailer(tail, footer, trailer{
		footerAt: uint32(f.at), sections: uint32(len(f.sections)), seekEntries: uint32(len(f.chunks)), batchesCRC: batches,
	})
}

func appendSection(dst []byte, s Section) []byte {
	dst = append(dst, s.Partition.Topic[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.Partition.Partition))
	dst = binary.BigEndian.AppendUint32(dst, s.Position)
	dst = binary.BigEndian.AppendUint32(dst, s.Length)
	return binary.BigEndian.AppendUint32(dst, s.Batches)
}
