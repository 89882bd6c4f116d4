package bundle

import (
	"encoding/binary"
	"hash/crc32"
	"unsafe"

	"github.com/freshet-io/freshet/metadata/id"
	"github.com/freshet-io/freshet/objstore"
)

// Record batch header (format 2), as far as this package reads it.
const (
	batchHeaderSize = 61
	batchCRCAt      = 17
	batchCRCFrom    = 21 // the batch's own CRC covers everything from here on
)

// combineFrom is the batch size from which combining checksums is cheaper than reading the bytes
// (BenchmarkCombineCRC32C).
const combineFrom = 4 << 10

// Encoder lays out one bundle. It keeps references to the batches' memory and copies none of it. The zero value is
// not ready: call Reset. It is not safe for concurrent use.
type Encoder struct {
	buffers  [][]byte
	sections []Section
	size     int64  // header and batches so far
	crc      uint32 // of the batches so far

	// Capacities of the last bundle, as a guess for the next: Finish gives the slices away.
	lastBuffers, lastSections int
}

// Reset begins the bundle of that submission and forgets the one before.
func (e *Encoder) Reset(name id.Submission) {
	header := appendHeader(make([]byte, 0, headerSize), name, OfAgent)

	e.buffers = append(make([][]byte, 0, max(e.lastBuffers, 16)), header)
	e.sections = make([]Section, 0, max(e.lastSections, 16))
	e.size = headerSize
	e.crc = 0
}

// Section begins a section, to which the following batches belong, and gives its position. A section without batches
// leaves no trace.
func (e *Encoder) Section(partition id.TopicPartition) (position uint32) {
	e.dropEmptySection()
	e.sections = append(e.sections, Section{Partition: partition, Position: uint32(e.size)})
	return uint32(e.size)
}

// Batch appends one whole record batch to the section, given as the chunks it is stored in. Its own CRC must be
// right: the object's checksum is derived from it, and the store refuses the object otherwise. Chunks that follow
// each other in memory, also those of adjacent batches, become one buffer. Errors: ErrTooLarge, ErrShortBatch; the
// bundle then is as before.
func (e *Encoder) Batch(chunks ...[]byte) error {
	var length int64
	for _, c := range chunks {
		length += int64(len(c))
	}
	if length < batchHeaderSize {
		return ErrShortBatch
	}
	if e.size+length+int64(len(e.sections))*entrySize+trailerSize > MaxSize {
		return ErrTooLarge
	}
	e.crc = appendBatchCRC(e.crc, chunks, length)
	for _, c := range chunks {
		e.appendBuffer(c)
	}
	e.size += length
	section := &e.sections[len(e.sections)-1]
	section.Length += uint32(length)
	section.Batches++
	return nil
}

// Finish closes the bundle and gives its content and sections. The encoder keeps nothing of it.
func (e *Encoder) Finish() (objstore.Body, []Section) {
	e.dropEmptySection()
	tail := make([]byte, 0, len(e.sections)*entrySize+trailerSize)
	for _, s := range e.sections {
		tail = appendSection(tail, s)
	}
	tail = appendTrailer(tail, len(tail), trailer{footerAt: uint32(e.size), sections: uint32(len(e.sections)), batchesCRC: e.crc})

	crc := crc32.Checksum(e.buffers[0][:headerSize], objstore.Castagnoli)
	crc = objstore.CombineCRC32C(crc, e.crc, e.size-headerSize)
	crc = crc32.Update(crc, objstore.Castagnoli, tail)
	body := objstore.Body{Buffers: append(e.buffers, tail), Size: e.size + int64(len(tail)), CRC32C: crc}
	sections := e.sections
	e.lastBuffers, e.lastSections = len(body.Buffers), len(sections)
	e.buffers, e.sections = nil, nil
	return body, sections
}

func (e *Encoder) dropEmptySection() {
	if n := len(e.sections); n > 0 && e.sections[n-1].Batches == 0 {
		e.sections = e.sections[:n-1]
	}
}

// appendBuffer adds the chunk, as part of the last buffer if it follows it in memory: fewer, larger buffers make
// fewer system calls.
func (e *Encoder) appendBuffer(chunk []byte) {
	if len(chunk) == 0 {
		return
	}
	last := &e.buffers[len(e.buffers)-1]
	end := len(*last)
	// The capacity shows that both lie in one allocation, so that reslicing is sound.
	if len(e.buffers) > 1 && cap(*last) >= end+len(chunk) &&
		unsafe.SliceData((*last)[:end+1][end:]) == unsafe.SliceData(chunk) {
		*last = (*last)[:end+len(chunk)]
		return
	}
	e.buffers = append(e.buffers, chunk)
}

// appendBatchCRC gives the checksum of the bytes so far followed by the batch: its first bytes are read, the rest
// comes from the batch's own checksum.
func appendBatchCRC(crc uint32, chunks [][]byte, length int64) uint32 {
	if length < combineFrom {
		for _, c := range chunks {
			crc = crc32.Update(crc, objstore.Castagnoli, c)
		}
		return crc
	}
	head := chunks[0]
	if len(head) < batchCRCFrom {
		head = make([]byte, 0, batchCRCFrom)
		for _, c := range chunks {
			head = append(head, c[:min(len(c), batchCRCFrom-len(head))]...)
		}
	}
	crc = crc32.Update(crc, objstore.Castagnoli, head[:batchCRCFrom])
	own := binary.BigEndian.Uint32(head[batchCRCAt:])
	return objstore.CombineCRC32C(crc, own, length-batchCRCFrom)
}
