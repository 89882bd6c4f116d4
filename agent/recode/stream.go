package recode

import (
	"bytes"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/freshet-io/freshet/kafkaproto"
)

// Codecs open and build the records of one batch after the other and use what that takes again. The zero value is
// ready. It is not safe for concurrent use; Close ends its use.
type Codecs struct {
	gzipReader *gzip.Reader
	lz4Reader  *lz4.Reader
	zstdReader *zstd.Decoder
	gzipWriter *gzip.Writer
	lz4Writer  *lz4.Writer
	zstdWriter *zstd.Encoder
	source     bytes.Reader
}

// Reader gives the batch's records uncompressed, as they come: at most maxBytes of them, then an error. It is valid
// until the next call. Errors, also of reading, say that the batch cannot be opened.
func (c *Codecs) Reader(b kafkaproto.RecordBatch, maxBytes int64) (io.Reader, error) {
	p := b[kafkaproto.BatchOverhead:]
	c.source.Reset(p)
	var r io.Reader
	var err error
	switch b.Codec() {
	case kafkaproto.NoCodec:
		return &c.source, nil
	case kafkaproto.Gzip:
		if c.gzipReader == nil {
			c.gzipReader = new(gzip.Reader)
		}
		r, err = c.gzipReader, c.gzipReader.Reset(&c.source)
	case kafkaproto.LZ4:
		if c.lz4Reader == nil {
			c.lz4Reader = lz4.NewReader(nil)
		}
		c.lz4Reader.Reset(&c.source)
		r = c.lz4Reader
	case kafkaproto.Zstd:
		r, err = c.openZstd()
	default:
		r, err = reader(b.Codec(), p, maxBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s batch: %w", b.Codec(), err)
	}
	return &bounded{r: r, left: maxBytes}, nil
}

func (c *Codecs) openZstd() (io.Reader, error) {
	if c.zstdReader == nil {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(zstdMaxWindow))
		if err != nil {
			return nil, err
		}
		c.zstdReader = d
	}
	return c.zstdReader, c.zstdReader.Reset(&c.source)
}

// Levels that Kafka compresses with where nothing is set.
const (
	defaultGzipLevel = -1
	defaultZstdLevel = 3
	// defaultZstdWindow is that level's, in bytes.
	defaultZstdWindow = 2 << 20
)

// Writer compresses records to w at the codec's default level, as Kafka's cleaner does (MemoryRecords
// .buildRetainedRecordsInto). Closing it completes what is in w. It is valid until the next call.
func (c *Codecs) Writer(codec kafkaproto.Codec, w io.Writer) (io.WriteCloser, error) {
	switch codec {
	case kafkaproto.Gzip:
		if c.gzipWriter != nil {
			c.gzipWriter.Reset(w)
			return c.gzipWriter, nil
		}
		z, err := gzip.NewWriterLevel(w, defaultGzipLevel)
		c.gzipWriter = z
		return z, err
	case kafkaproto.LZ4:
		if c.lz4Writer != nil {
			c.lz4Writer.Reset(w)
			return c.lz4Writer, nil
		}
		z, err := writer(codec, lz4DefaultLevel, w)
		c.lz4Writer, _ = z.(*lz4.Writer)
		return z, err
	case kafkaproto.Zstd:
		if c.zstdWriter != nil {
			c.zstdWriter.Reset(w)
			return c.zstdWriter, nil
		}
		z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithLowerEncoderMem(true),
			zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(defaultZstdLevel)), zstd.WithWindowSize(defaultZstdWindow))
		c.zstdWriter = z
		return z, err
	default:
		return writer(codec, 0, w)
	}
}

// Close releases what the codecs hold.
func (c *Codecs) Close() {
	if c.zstdReader != nil {
		c.zstdReader.Close()
	}
	*c = Codecs{}
}
