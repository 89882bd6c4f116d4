// Package bundle is the codec of bundles: immutable objects that hold record batches of many partitions. The sequencer
// knows where each partition's batches are; a bundle also tells it by itself, so that it can be inspected and checked
// without any metadata.
//
// All integers are big endian. Sizes are in bytes. A bundle is smaller than 4 GiB.
//
//	part      size  content
//	header      24  see below
//	batches      n  record batches (format 2) back to back, grouped by section
//	footer    32·s  one entry per section
//	trailer     32  see below
//
// Header:
//
//	offset  size  field
//	0          8  magic "frshbndl"
//	8          1  version, 1
//	9          3  reserved, 0
//	12         4  agent session
//	16         4  n: the submission's number in its session
//	20         4  CRC-32C of bytes 0-19
//
// Footer entry, sections in the order of their bytes, each starting where the one before it ended:
//
//	offset  size  field
//	0         16  topic id
//	16         4  partition
//	20         4  position of the section's first byte in the object
//	24         4  length in bytes
//	28         4  number of record batches, at least 1
//
// Trailer, the object's last bytes:
//
//	offset  size  field
//	0          4  position of the footer
//	4          4  number of sections
//	8          4  CRC-32C of all batch bytes
//	12         4  reserved, 0
//	16         4  CRC-32C of the footer and of bytes 0-15 of the trailer
//	20         4  version, 1
//	24         8  magic "frshfoot"
//
// Batches are the producers' bytes as they were sent: base offsets are not the true ones (package extent), and the
// leader epoch is the producer's. A batch carries its own CRC-32C of everything from its byte 21 on, from which the
// checksum of the whole object is combined without reading the records again.
package bundle

import (
	"errors"

	"github.com/freshet-io/freshet/metadata/id"
)

// Version is the only version of the format so far.
const Version = 1

const (
	headerSize  = 24
	entrySize   = 32
	trailerSize = 32

	headerMagic  = "frshbndl"
	trailerMagic = "frshfoot"
)

// HeaderSize is the position of a bundle's first batch.
const HeaderSize = headerSize

// MaxSize is the largest bundle in bytes: positions are 32 bits wide.
const MaxSize = 1<<32 - 1

// Overhead is how many bytes a bundle with that many sections has besides its batches.
func Overhead(sections int) int64 { return headerSize + trailerSize + int64(sections)*entrySize }

var (
	// ErrMalformed is the base of decoding errors: the bytes are not a bundle, or not an intact one.
	ErrMalformed = errors.New("malformed bundle")
	// ErrTooLarge: the bundle would reach MaxSize.
	ErrTooLarge = errors.New("bundle too large")
	// ErrShortBatch: the bytes handed in are shorter than a record batch's header.
	ErrShortBatch = errors.New("record batch shorter than its header")
)

// Section is one stretch of adjacent batches of one partition, as the footer tells it.
type Section struct {
	Partition id.TopicPartition
	Position  uint32 // of the first batch's first byte in the object
	Length    uint32 // bytes
	Batches   uint32
}
