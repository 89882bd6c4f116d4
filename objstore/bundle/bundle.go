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
//	seek      24·k  of background jobs' bundles: one entry per chunk of long sections
//	trailer     40  see below
//
// Agents write bundles by Encoder, background jobs by Writer.
//
// Header:
//
//	offset  size  field
//	0          8  magic "frshbndl"
//	8          1  generation (generation.Number)
//	9          1  Kind
//	10         2  reserved, 0
//	12         4  agent session
//	16         4  n: the submission's number in its session
//	20         4  CRC-32C of bytes 0-19
//
// Magic, generation and checksum are where they are in every generation, so that a program tells another one from damage.
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
// Seek entry, in the order of positions. A chunk ends with the first batch that ends 1 MiB or more after the chunk's
// beginning, or with its section; a section of a single chunk has no entry. So an offset is found by the entries' first
// offsets, a time by their timestamps: no batch of a chunk is later than its entry says (Seek):
//
//	offset  size  field
//	0          4  position of the chunk's first batch in the object
//	4          4  length in bytes
//	8          8  base offset of the chunk's first batch
//	16         8  largest max timestamp of the chunk's batches, ms since the epoch; -1 if none
//
// Trailer, the object's last bytes. The seek table and the trailer can be checked without the footer:
//
//	offset  size  field
//	0          4  position of the footer
//	4          4  number of sections
//	8          4  number of seek entries
//	12         4  CRC-32C of all batch bytes
//	16         4  CRC-32C of the footer
//	20         4  CRC-32C of the seek table
//	24         1  generation
//	25         3  reserved, 0
//	28         4  CRC-32C of bytes 0-27
//	32         8  magic "frshfoot"
//
// In agents' bundles batches are the producers' bytes as they were sent: base offsets are not the true ones (package extent), and
// the leader epoch is the producer's. In background jobs' base offsets are true and the leader epoch is 0, sections ascend by
// partition and their batches by offset, and batches that were not accepted are left out. A batch carries its own CRC-32C of
// everything from its byte 21 on, from which the checksum of the whole object is combined without reading the records again.
package bundle

import (
	"errors"
	"fmt"

	"github.com/freshet-io/freshet/metadata/id"
)

// Kind says who wrote a bundle.
type Kind uint8

const (
	OfAgent Kind = 1 // batches as producers sent them
	OfJob   Kind = 2 // batches with their true offsets, and a seek table
)

func (k Kind) String() string {
	switch k {
	case OfAgent:
		return "agent"
	case OfJob:
		return "job"
	}
	return fmt.Sprintf("kind-%d", uint8(k))
}

const (
	headerSize    = 24
	entrySize     = 32
	seekEntrySize = 24
	trailerSize   = 40

	headerMagic  = "frshbndl"
	trailerMagic = "frshfoot"
)

// HeaderSize is the position of a bundle's first batch.
const HeaderSize = headerSize

// MaxSize is the largest bundle in bytes: positions are 32 bits wide.
const MaxSize = 1<<32 - 1

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
