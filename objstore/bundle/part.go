package bundle

import (
	"hash/crc32"

	"github.com/freshet-io/freshet/objstore"
)

// partChunk is the size of the pieces of memory that a part is made of: small bundles take little.
const partChunk = 1 << 20

// part is bytes on their way to the store.
type part struct {
	chunks [][]byte // filled in order
	spare  [][]byte // memory for more
	size   int
	crc    uint32
}

// append copies the bytes.
func (p *part) append(b []byte) {
	p.size += len(b)
	p.crc = crc32.Update(p.crc, objstore.Castagnoli, b)
	for len(b) > 0 {
		if n := len(p.chunks); n == 0 || len(p.chunks[n-1]) == partChunk {
			p.chunks = append(p.chunks, p.chunk())
		}
		last := &p.chunks[len(p.chunks)-1]
		n := min(len(b), partChunk-len(*last))
		*last = append(*last, b[:n]...)
		b = b[n:]
	}
}

func (p *part) chunk() []byte {
	n := len(p.spare)
	if n == 0 {
		return make([]byte, 0, partChunk)
	}
	c := p.spare[n-1]
	p.spare = p.spare[:n-1]
	return c[:0]
}

func (p *part) body() objstore.Body {
	return objstore.Body{Buffers: p.chunks, Size: int64(p.size), CRC32C: p.crc}
}
