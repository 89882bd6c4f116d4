package cache

import (
	"errors"
	"io"
	"sync"
)

// chunkSize is what bodies are read into: nothing is allocated by a claimed length, and memory is used again without
// being cleared.
const chunkSize = 256 << 10

var chunks = sync.Pool{New: func() any { return new([chunkSize]byte) }}

// readChunks reads r to its end into segments from position first on. The last, partly filled chunk is copied to its
// size. It gives the function that returns the chunks to the pool. reserve is asked before each chunk for the memory
// of all so far.
func readChunks(r io.Reader, first uint32, reserve func(size int64) error) (
	segments []segment, size int64, free func(), err error,
) {
	var taken []*[chunkSize]byte
	free = func() {
		for _, c := range taken {
			chunks.Put(c)
		}
	}
	for {
		if err := reserve(size + chunkSize); err != nil {
			free()
			return nil, 0, nil, err
		}
		c := chunks.Get().(*[chunkSize]byte)
		n, err := fill(r, c[:])
		position := first + uint32(size)
		size += int64(n)
		switch {
		case err == nil:
			taken = append(taken, c)
			segments = append(segments, segment{position: position, bytes: c[:]})
		case errors.Is(err, io.EOF):
			if n > 0 {
				segments = append(segments, segment{position: position, bytes: append([]byte(nil), c[:n]...)})
			}
			chunks.Put(c)
			return segments, size, free, nil
		default:
			chunks.Put(c)
			free()
			return nil, 0, nil, err
		}
	}
}

// fill reads until p is full. io.EOF is the proper end only; a body that was cut off (io.ErrUnexpectedEOF) is an
// error, which io.ReadFull would not tell apart.
func fill(r io.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var m int
		m, err = r.Read(p[n:])
		n += m
	}
	if n == len(p) {
		err = nil // an end is met again
	}
	return n, err
}
