package recode

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"github.com/freshet-io/freshet/kafkaproto"
)

// Codecs open and build the records of one batch after the other and use what that takes again, but for what is large:
// that is given back with the batch. The zero value is ready. It is not safe for concurrent use; Close ends its use.
type Codecs struct {
	gzipReader *gzip.Reader
	lz4Reader  *lz4.Reader
	zstdReader *zstd.Decoder
	gzipWriter *gzip.Writer
	lz4Writer  *lz4.Writer
	zstdWriter *zstd.Encoder
	source     bytes.Reader
}

// Reader gives the batch's records uncompressed, as they come: at most maxBytes of them, then an error. A batch that takes
// much memory waits for its turn in the process, here or in Read, and keeps it until the Reader is closed: store nothing
// meanwhile. Close it before the next call. Errors, also of reading, say that the batch cannot be opened, unless the context
// has ended.
func (c *Codecs) Reader(ctx context.Context, b kafkaproto.RecordBatch, maxBytes int64) (io.ReadCloser, error) {
	o := &opened{ctx: ctx, batch: b, maxBytes: maxBytes}
	var err error
	if o.source, err = c.open(b, maxBytes); errors.Is(err, errLarge) {
		err = o.enlarge()
	}
	if err != nil {
		o.leave()
		return nil, fmt.Errorf("open %s batch: %w", b.Codec(), err)
	}
	return readCloser{&bounded{r: o, left: maxBytes}, o}, nil
}

type readCloser struct {
	io.Reader
	io.Closer
}

// opened reads a batch's records and takes the large turn when they turn out to need it.
type opened struct {
	ctx      context.Context // of the reading; an io.Reader has no other place for it
	batch    kafkaproto.RecordBatch
	maxBytes int64
	source   io.ReadCloser
	read     int64 // bytes
	large    bool  // it has the large turn
}

// enlarge opens the batch again in the large turn, behind the bytes that were read.
func (o *opened) enlarge() error {
	if err := largeTurn.Acquire(o.ctx, 1); err != nil {
		return err
	}
	o.large = true
	source, err := reader(o.batch.Codec(), o.batch[kafkaproto.BatchOverhead:], o.maxBytes, largeRoom)
	if err != nil {
		return err
	}
	o.source = source
	_, err = io.CopyN(io.Discard, source, o.read)
	return err
}

func (o *opened) Read(p []byte) (int, error) {
	n, err := o.source.Read(p)
	o.read += int64(n)
	if errors.Is(err, errLarge) {
		err = o.enlarge()
	}
	return n, err
}

func (o *opened) leave() {
	if o.large {
		o.large = false
		largeTurn.Release(1)
	}
}

func (o *opened) Close() error {
	defer o.leave()
	return o.source.Close()
}

// open reads with the codec that is kept. Closing what it gives keeps that.
func (c *Codecs) open(b kafkaproto.RecordBatch, maxBytes int64) (r io.ReadCloser, err error) {
	p := b[kafkaproto.BatchOverhead:]
	c.source.Reset(p)
	switch b.Codec() {
	case kafkaproto.Gzip:
		if c.gzipReader == nil {
			c.gzipReader = new(gzip.Reader)
		}
		return io.NopCloser(c.gzipReader), c.gzipReader.Reset(&c.source)
	case kafkaproto.LZ4:
		if c.lz4Reader == nil {
			c.lz4Reader = lz4.NewReader(nil)
		}
		c.lz4Reader.Reset(&c.source)
		return io.NopCloser(c.lz4Reader), nil
	case kafkaproto.Zstd:
		return c.openZstd()
	default:
		return reader(b.Codec(), p, maxBytes, ordinaryRoom)
	}
}

func (c *Codecs) openZstd() (io.ReadCloser, error) {
	if c.zstdReader == nil {
		d, err := newZstd(nil, ordinaryRoom)
		if err != nil {
			return nil, err
		}
		c.zstdReader = d
	}
	return ordinaryZstd{io.NopCloser(c.zstdReader)}, c.zstdReader.Reset(&c.source)
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
