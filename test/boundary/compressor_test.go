package boundary

import (
	"bytes"
	"compress/gzip"

	"github.com/twmb/franz-go/pkg/kgo"
)

// compressor compresses batches by gzip, and adds parts of their compressed bytes to tags.
type compressor struct{ tags *tags }

// sampled is the distance of the parts of a compressed batch.
const sampled = 64

func (c *compressor) Compress(dst *bytes.Buffer, src []byte, _ ...kgo.CompressFlag) ([]byte, kgo.CompressionCodecType) {
	w := gzip.NewWriter(dst)
	_, _ = w.Write(src) // a Buffer takes all
	_ = w.Close()
	p := dst.Bytes()
	for i := sampled; i+tagBytes <= len(p)-sampled; i += sampled {
		c.tags.add("compressed batch", p[i:i+tagBytes])
	}
	return p, kgo.CodecGzip
}
