package kafkaproto

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kerr"
)

// checkPayload checks that the bytes behind a batch's header are its records and nothing else. Java consumers stop at any other
// batch for good (DefaultRecordBatch.RecordIterator, Lz4BlockInputStream).
//
// Uncompressed records are parsed. Compressed records are not decompressed, but the blocks of lz4, zstd and snappy-java's stream must
// end with the payload. Bytes after a gzip stream or within a plain snappy block show only when a Recoder opens the batch.
func checkPayload(b RecordBatch) error {
	p := b[BatchOverhead:]
	var err error
	switch b.Codec() {
	case NoCodec:
		return checkRecords(b, p)
	case LZ4:
		err = checkLZ4(p)
	case Zstd:
		err = checkZstd(p)
	case Snappy:
		err = checkSnappy(p)
	case Gzip:
		if len(p) < gzipHeader || p[0] != 0x1f || p[1] != 0x8b {
			err = errors.New("no gzip header")
		}
	}
	if err != nil {
		return refuse(kerr.InvalidRecord, "Found invalid %s data in the batch: %s.", b.Codec(), err)
	}
	return nil
}

// gzipHeader is the size of gzip's fixed header, bytes.
const gzipHeader = 10

// checkRecords parses as many uncompressed records as the batch's header says. They must end with the payload. Offset deltas may have
// any value, as in LogValidator.
func checkRecords(b RecordBatch, p []byte) error {
	for i := range b.RecordCount() {
		n := recordSize(p)
		if n < 0 {
			return refuse(kerr.InvalidRecord, "Found an invalid record in the batch: record %d of %d.", i, b.RecordCount())
		}
		p = p[n:]
	}
	if len(p) > 0 {
		return refuse(kerr.InvalidRecord, "Incorrect declared batch size: %d bytes after the last record.", len(p))
	}
	return nil
}

// recordSize returns the size of the record at the start of p, or -1 if the record is malformed. Every uncompressed record that a
// client produces passes here, so it is faster than nextRecord.
func recordSize(p []byte) int {
	length, at := varint32At(p, 0)
	if at < 0 || length < 1 || length > int64(len(p)-at) {
		return -1
	}
	end := at + int(length)
	p = p[:end]
	_, at = varintAt(p, at+1) // the timestamp delta, behind the attributes
	delta, at := varint32At(p, at)
	at = varbytesAt(p, at, true) // key
	at = varbytesAt(p, at, true) // value
	headers, at := varint32At(p, at)
	if at < 0 || delta != int64(int32(delta)) || headers < 0 || headers > int64(end-at) {
		return -1
	}
	for range headers {
		if at = varbytesAt(p, varbytesAt(p, at, false), true); at < 0 {
			return -1
		}
	}
	if at != end {
		return -1
	}
	return end
}

// varintAt returns the zigzag varint at p[at] and the index behind it, or -1 as the index if there is none or at is -1.
func varintAt(p []byte, at int) (v int64, next int) {
	if uint(at) >= uint(len(p)) {
		return 0, -1
	}
	if c := p[at]; c < 0x80 {
		return int64(c>>1) ^ -int64(c&1), at + 1
	}
	v, n := binary.Varint(p[at:])
	if n <= 0 {
		return 0, -1
	}
	return v, at + n
}

// varint32At is varintAt for all fields but timestamp deltas. Java reads at most maxVarint32 bytes of them (ByteUtils.readVarint).
func varint32At(p []byte, at int) (v int64, next int) {
	v, next = varintAt(p, at)
	if next-at > maxVarint32 {
		return 0, -1
	}
	return v, next
}

// varbytesAt returns the index behind the bytes that have their length, a varint, at p[at]. It returns -1 if p is too short or at is
// -1. A length of -1 stands for null.
func varbytesAt(p []byte, at int, nullable bool) int {
	n, at := varint32At(p, at)
	switch {
	case at < 0, n < -1, n > int64(len(p)-at), n == -1 && !nullable:
		return -1
	case n == -1:
		return at
	}
	return at + int(n)
}

var (
	errCut      = errors.New("the data ends early")
	errTrailing = errors.New("bytes follow the last block")
)

// The header of an lz4 frame, as Lz4BlockOutputStream.FLG and BD accept it:
//
//	0  4     magic, little-endian
//	4  1     flags: bits 6-7 version 1, bit 5 independent blocks, bit 4 block checksums, bit 3 content size, bit 2 content checksum
//	5  1     bits 4-6 largest block: 4 (64 KiB) to 7 (4 MiB)
//	6  0, 8  content size
//	   1     header checksum
//
// Blocks follow, each after its size (4 bytes, the top bit for an uncompressed one). A size of 0 ends the frame.
const (
	lz4Magic       = 0x184d2204
	lz4Header      = 7
	lz4Fixed       = 0b11100011 // of the flags
	lz4Expected    = 0b01100000
	lz4BlockSum    = 1 << 4
	lz4ContentSize = 1 << 3
	lz4ContentSum  = 1 << 2
	lz4Sum         = 4 // bytes of a checksum
	lz4Plain       = 1 << 31
)

// checkLZ4 checks that p is one frame. Lz4BlockInputStream reads no second one.
func checkLZ4(p []byte) error {
	if len(p) < lz4Header || binary.LittleEndian.Uint32(p) != lz4Magic {
		return errors.New("no lz4 frame")
	}
	flags, size := p[4], p[5]>>4
	if flags&lz4Fixed != lz4Expected || p[5]&0x8f != 0 || size < 4 {
		return fmt.Errorf("lz4 frame with the unsupported descriptor %#x %#x", flags, p[5])
	}
	header := lz4Header
	if flags&lz4ContentSize != 0 {
		header += 8
	}
	blockSum, contentSum := 0, 0
	if flags&lz4BlockSum != 0 {
		blockSum = lz4Sum
	}
	if flags&lz4ContentSum != 0 {
		contentSum = lz4Sum
	}
	r := reader{src: p}
	r.take(header)
	for {
		block := r.uint32LE() &^ lz4Plain
		switch {
		case r.err != nil:
			return errCut
		case block > 1<<(2*size+8):
			return fmt.Errorf("lz4 block of %d bytes", block)
		case block > 0:
			r.take(int(block) + blockSum)
			continue
		}
		r.take(contentSum)
		return ended(&r)
	}
}

// checkZstd checks that p is a series of whole frames, as consumers read it.
func checkZstd(p []byte) error {
	for {
		var h zstd.Header
		if err := h.Decode(p); err != nil {
			return err
		}
		r := reader{src: p}
		r.take(h.HeaderSize)
		if h.Skippable {
			r.take(int(h.SkippableSize))
		} else {
			zstdBlocks(&r, h.HasCheckSum)
		}
		if r.err != nil {
			return errCut
		}
		if p = r.src; len(p) == 0 {
			return nil
		}
	}
}

// zstdBlocks takes a frame's blocks. Each has a header of 3 bytes, little-endian: bit 0 marks the last block, bits 1-2 are the type, and
// the others the size.
func zstdBlocks(r *reader, checksum bool) {
	const headerSize, repeated, sum = 3, 1, 4
	for last := false; !last && r.err == nil; {
		header := r.take(headerSize)
		if header == nil {
			return
		}
		bits := int(header[0]) | int(header[1])<<8 | int(header[2])<<16
		size := bits >> 3
		if bits>>1&3 == repeated {
			size = 1 // the byte that is repeated
		}
		last = bits&1 != 0
		r.take(size)
	}
	if checksum {
		r.take(sum)
	}
}

// checkSnappy checks the lengths of snappy-java's stream, or that p may be one plain block.
func checkSnappy(p []byte) error {
	r := reader{src: p}
	if len(p) < len(xerialMagic) || string(p[:len(xerialMagic)]) != string(xerialMagic) {
		if n, err := snappy.DecodedLen(p); err != nil || n > maxSnappyRatio*len(p) {
			return errors.New("no snappy block")
		}
		return nil
	}
	r.take(xerialHeader)
	for len(r.src) > 0 {
		r.take(int(uint32(r.int32())))
	}
	return ended(&r)
}

// ended returns an error if the reader ran out of bytes, or has some left.
func ended(r *reader) error {
	switch {
	case r.err != nil:
		return errCut
	case len(r.src) > 0:
		return errTrailing
	}
	return nil
}

func (r *reader) uint32LE() uint32 {
	if p := r.take(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}
