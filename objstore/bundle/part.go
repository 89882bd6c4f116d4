package bundle

import (
	"hash/crc32"
	"sync"

	"github.com/freshet-io/freshet/objstore"
)

// partChunk is the size of the pieces of memory that a part is made of: small bundles take little.
const partChunk = 1 << 20

// partChunks are spare: bundles follow each other, and their parts.
var partChunks = sync.Pool{New: func() any { return new([partChunk]byte) }}

// part is bytes on their way to the store.
type part struct {
	chunks [][]byte // filled in order, each of partChunk bytes of capacity
	size   int
	crc    uint32
}

// append copies the bytes.
func (p *part) append(b []byte) {
	p.size += len(b)
	p.crc = crc32.Update(p.crc, objstore.Castagnoli, b)
	for len(b) > 0 {
		if n := len(p.chunks); n == 0 || len(p.chunks[n-1]) == partChunk {
			p.chunks = append(p.chunks, partChunks.Get().(*[partChunk]byte)[:0])
		}
		last := &p.chunks[len(p.chunks)-1]
		n := min(len(b), partChunk-len(*last))
		*last = append(*last, b[:n]...)
		b = b[n:]
	}
}

// free gives the memory back. Nobody may read it any more.
func (p *part) free() {
	for _, c := range p.chunks {
		partChunks.Put((*[partChunk]byte)(c[:partChunk]))
	}
	*p = part{}
}

func (p *part) body() objstore.Body {
	return objstore.Body{Buffers: p.chunks, Size: int64(p.size), CRC32C: p.crc}
}
