package recode

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/freshet-io/freshet/kafkaproto"
)

const (
	// zstdMaxWindow bounds a zstd decoder's memory, bytes. It is the window of level 22, the highest that Kafka's producers
	// can be set to (compression.zstd.level); at their default it is 2 MiB.
	zstdMaxWindow = 128 << 20
	// snappyBlock is the block size of snappy-java's stream, bytes.
	snappyBlock = 32 << 10
	// snappyMaxBlock bounds what one block of snappy-java's stream claims, bytes.
	snappyMaxBlock = 64 << 20
)

// xerial is the header of snappy-java's stream: magic, version 1, compatible with 1.
var xerial = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1}

// reader decompresses a batch's records. What is decompressed as a whole has at most maxBytes; what is read is not bounded.
// Opening or reading returns errLarge if that takes more memory than room, ordinaryRoom or largeRoom.
func reader(codec kafkaproto.Codec, p []byte, maxBytes, room int64) (io.ReadCloser, error) {
	switch codec {
	case kafkaproto.NoCodec:
		return io.NopCloser(bytes.NewReader(p)), nil
	case kafkaproto.Gzip:
		return gzip.NewReader(bytes.NewReader(p))
	case kafkaproto.Snappy:
		return snappyReader(p, maxBytes, room)
	case kafkaproto.LZ4:
		return io.NopCloser(lz4.NewReader(bytes.NewReader(p))), nil
	case kafkaproto.Zstd:
		d, err := newZstd(bytes.NewReader(p), room)
		if err != nil {
			return nil, err
		}
		if room == ordinaryRoom {
			return ordinaryZstd{d.IOReadCloser()}, nil
		}
		return d.IOReadCloser(), nil
	default:
		return nil, fmt.Errorf("codec %d", codec)
	}
}

func newZstd(r io.Reader, room int64) (*zstd.Decoder, error) {
	return zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(uint64(min(room, zstdMaxWindow))))
}

// writer compresses a batch's records to w.
func writer(codec kafkaproto.Codec, level int, w io.Writer) (io.WriteCloser, error) {
	switch codec {
	case kafkaproto.NoCodec:
		return plain{w}, nil
	case kafkaproto.Gzip:
		return gzip.NewWriterLevel(w, level)
	case kafkaproto.Snappy:
		return &snappyWriter{w: w}, nil
	case kafkaproto.LZ4:
		z := lz4.NewWriter(w)
		return z, z.Apply(lz4.BlockSizeOption(lz4.Block64Kb), lz4.CompressionLevelOption(lz4Level(level)))
	case kafkaproto.Zstd:
		return zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
			zstd.WithWindowSize(8<<20))
	default:
		return nil, fmt.Errorf("codec %d", codec)
	}
}

// lz4DefaultLevel is the one at which Kafka takes the fast compressor, whatever it says (Lz4Compression).
const lz4DefaultLevel = 9

// lz4Level translates Kafka's compression.lz4.level (1 to 17) to the library's levels.
func lz4Level(level int) lz4.CompressionLevel {
	levels := [...]lz4.CompressionLevel{
		lz4.Level1, lz4.Level2, lz4.Level3, lz4.Level4, lz4.Level5, lz4.Level6, lz4.Level7, lz4.Level8, lz4.Level9,
	}
	if level == lz4DefaultLevel || level < 1 {
		return lz4.Fast
	}
	return levels[min(level, len(levels))-1]
}

type plain struct{ io.Writer }

func (plain) Close() error { return nil }

// snappyReader decompresses snappy-java's stream, or one plain snappy block of at most maxBytes, as which other clients
// send all records of a batch (librdkafka, franz-go). Which it is and what is taken is as with Kafka's brokers and Java's
// consumers (SnappyCompression, org.xerial.snappy.SnappyInputStream), but for what a block may claim: they make room for that
// at once, whatever it is.
func snappyReader(p []byte, maxBytes, room int64) (io.ReadCloser, error) {
	if !bytes.HasPrefix(p, xerial[:8]) {
		block, err := snappyDecode(nil, p, maxBytes, room)
		return io.NopCloser(bytes.NewReader(block)), err
	}
	if len(p) < len(xerial) {
		return nil, io.ErrUnexpectedEOF
	}
	if version := int32(binary.BigEndian.Uint32(p[8:])); version < 1 {
		return nil, fmt.Errorf("snappy stream of version %d", version)
	}
	return io.NopCloser(&snappyStream{rest: p[len(xerial):], room: room}), nil
}

func snappyDecode(dst, p []byte, most, room int64) ([]byte, error) {
	n, err := snappy.DecodedLen(p)
	if err != nil {
		return nil, err
	}
	// A snappy element of 3 bytes copies at most 64, so that a block cannot claim much more than 22 times its size.
	if int64(n) > most || n > 32*len(p)+64 {
		return nil, fmt.Errorf("snappy block of %d bytes claims %d", len(p), n)
	}
	if int64(n) > room {
		return nil, errLarge
	}
	// S2, which extends snappy, is nothing that consumers can read.
	return snappy.DecodeStrict(dst[:cap(dst)], p)
}

// snappyStream reads blocks, each after its length as 4 bytes big-endian.
type snappyStream struct {
	rest    []byte
	room    int64  // of a block
	block   []byte // decompressed
	pending []byte // of block
}

func (s *snappyStream) Read(p []byte) (int, error) {
	for len(s.pending) == 0 {
		if len(s.rest) == 0 {
			return 0, io.EOF
		}
		if len(s.rest) < 4 {
			return 0, io.ErrUnexpectedEOF
		}
		n := binary.BigEndian.Uint32(s.rest)
		s.rest = s.rest[4:]
		if uint64(n) > uint64(len(s.rest)) {
			return 0, io.ErrUnexpectedEOF
		}
		block, err := snappyDecode(s.block, s.rest[:n], snappyMaxBlock, s.room)
		if err != nil {
			return 0, err
		}
		s.rest, s.block, s.pending = s.rest[n:], block, block
	}
	n := copy(p, s.pending)
	s.pending = s.pending[n:]
	return n, nil
}

// snappyWriter writes snappy-java's stream.
type snappyWriter struct {
	w       io.Writer
	started bool
	block   []byte
	encoded []byte // room for a block
	out     []byte
}

func (s *snappyWriter) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		n := min(len(p), snappyBlock-len(s.block))
		s.block = append(s.block, p[:n]...)
		p = p[n:]
		if len(s.block) == snappyBlock {
			if err := s.flush(); err != nil {
				return 0, err
			}
		}
	}
	return total, nil
}

func (s *snappyWriter) flush() error {
	s.out = s.out[:0]
	if !s.started {
		s.started = true
		s.out = append(s.out, xerial...)
	}
	if len(s.block) > 0 {
		s.encoded = snappy.Encode(s.encoded[:cap(s.encoded)], s.block)
		s.out = binary.BigEndian.AppendUint32(s.out, uint32(len(s.encoded)))
		s.out = append(s.out, s.encoded...)
		s.block = s.block[:0]
	}
	_, err := s.w.Write(s.out)
	return err
}

// Close writes what is left.
func (s *snappyWriter) Close() error { return s.flush() }
