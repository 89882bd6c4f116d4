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
// The following tables are in the form of internal/bytetable, and testdata/bundles.golden has examples.
//
// Header:
//
//	offset  field       form     meaning
//	0       magic       8 bytes  = "frshbndl"
//	8       generation  1 byte   = generation.Number
//	9       kind        1 byte   Kind
//	10      reserved    u16 BE   = 0
//	12      session     u32 BE   agent session
//	16      n           u32 BE   the submission's number in its session
//	20      crc         u32 BE   = CRC-32C of bytes 0-19
//
// Magic, generation and checksum are where they are in every generation, so that a program tells another one from damage.
//
// Sections are in the order of their bytes, each starting where the one before it ended.
//
// Footer entry:
//
//	offset  field      form      meaning
//	0       topic      16 bytes  topic id
//	16      partition  u32 BE
//	20      position   u32 BE    of the section's first byte in the object
//	24      length     u32 BE    in bytes
//	28      batches    u32 BE    number of record batches, at least 1
//
// Seek entries are in the order of positions. A chunk ends with the first batch that ends 1 MiB or more after the chunk's
// beginning, or with its section; a section of a single chunk has no entry. So an offset is found by the entries' first
// offsets, a time by their timestamps: no batch of a chunk is later than its entry says (Seek).
//
// Seek entry:
//
//	offset  field      form    meaning
//	0       position   u32 BE  of the chunk's first batch in the object
//	4       length     u32 BE  in bytes
//	8       first      u64 BE  base offset of the chunk's first batch
//	16      timestamp  u64 BE  largest max timestamp of the chunk's batches, ms since the epoch; -1 if none
//
// The trailer is the object's last bytes. The seek table and the trailer can be checked without the footer.
//
// Trailer:
//
//	offset  field         form     meaning
//	0       footer        u32 BE   = position of the footer
//	4       sections      u32 BE   = number of sections
//	8       seek entries  u32 BE   = number of seek entries
//	12      batches crc   u32 BE   = CRC-32C of all batch bytes
//	16      footer crc    u32 BE   = CRC-32C of the footer
//	20      seek crc      u32 BE   = CRC-32C of the seek table
//	24      generation    1 byte   = generation.Number
//	25      reserved      3 bytes  = 0
//	28      crc           u32 BE   = CRC-32C of bytes 0-27
//	32      magic         8 bytes  = "frshfoot"
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
