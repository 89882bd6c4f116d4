package kafkaproto

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// maxZstdWindow is the largest window that zstd's levels use.
const maxZstdWindow = 128 << 20

// xerialMagic starts the framing that snappy-java puts around blocks: magic, version and compatible version (4 bytes
// each), then blocks with their length (4 bytes) before.
var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const xerialHeader = 16

// Codecs are costly to make and are used again.
var (
	gzipReaders = sync.Pool{}
	lz4Readers  = sync.Pool{New: func() any { return lz4.NewReader(nil) }}
	zstdReaders = sync.Pool{New: func() any { return newZstdReader() }}
)

func newZstdReader() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(maxZstdWindow))
	if err != nil {
		panic("kafkaproto: zstd decoder options: " + err.Error())
	}
	return d
}

// Decompress gives the uncompressed form of the records of a batch, at most maxBytes of it. Without a codec it is src
// itself. Memory is taken as output is made, never from a claimed size. Errors are ErrCorrupt.
func Decompress(codec Codec, src []byte, maxBytes int) ([]byte, error) {
	var p []byte
	var err error
	switch codec {
	case NoCodec:
		p = src
	case Gzip:
		p, err = gunzip(src, maxBytes)
	case Snappy:
		p, err = unsnappy(src, maxBytes)
	case LZ4:
		r := lz4Readers.Get().(*lz4.Reader)
		r.Reset(bytes.NewReader(src))
		p, err = readBounded(r, maxBytes)
		r.Reset(nil)
		lz4Readers.Put(r)
	case Zstd:
		p, err = unzstd(src, maxBytes)
	default:
		err = fmt.Errorf("unknown codec %d", codec)
	}
	if err == nil && len(p) > maxBytes {
		err = fmt.Errorf("more than %d bytes", maxBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: decompress %s: %w", ErrCorrupt, codec, err)
	}
	return p, nil
}

// readBounded reads all there is, up to one byte more than maxBytes.
func readBounded(r io.Reader, maxBytes int) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, int64(maxBytes)+1))
}

func gunzip(src []byte, maxBytes int) ([]byte, error) {
	r, _ := gzipReaders.Get().(*gzip.Reader)
	if r == nil {
		r = new(gzip.Reader)
	}
	if err := r.Reset(bytes.NewReader(src)); err != nil {
		return nil, err
	}
	defer gzipReaders.Put(r)
	return readBounded(r, maxBytes)
}

func unzstd(src []byte, maxBytes int) ([]byte, error) {
	d := zstdReaders.Get().(*zstd.Decoder)
	defer zstdReaders.Put(d)
	if err := d.Reset(bytes.NewReader(src)); err != nil {
		return nil, err
	}
	p, err := readBounded(d, maxBytes)
	_ = d.Reset(nil) // lets go of src
	return p, err
}

func unsnappy(src []byte, maxBytes int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) {
		return unsnappyBlock(nil, src, maxBytes)
	}
	if len(src) < xerialHeader {
		return nil, io.ErrUnexpectedEOF
	}
	var p []byte
	for src = src[xerialHeader:]; len(src) > 0; {
		if len(src) < 4 {
			return nil, io.ErrUnexpectedEOF
		}
		n := int64(binary.BigEndian.Uint32(src))
		src = src[4:]
		if n > int64(len(src)) {
			return nil, io.ErrUnexpectedEOF
		}
		var err error
		if p, err = unsnappyBlock(p, src[:n], maxBytes); err != nil {
			return nil, err
		}
		src = src[n:]
	}
	return p, nil
}

// maxSnappyRatio is more than snappy can make of a byte; a block that claims more is not decoded.
const maxSnappyRatio = 64

// unsnappyBlock appends a block's content to dst.
func unsnappyBlock(dst, block []byte, maxBytes int) ([]byte, error) {
	n, err := snappy.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	if n > maxBytes-len(dst) || n > maxSnappyRatio*len(block) {
		return nil, fmt.Errorf("block of %d claims %d bytes, of at most %d", len(block), n, maxBytes-len(dst))
	}
	if dst == nil {
		return snappy.Decode(nil, block)
	}
	p, err := snappy.Decode(nil, block)
	return append(dst, p...), err
}
