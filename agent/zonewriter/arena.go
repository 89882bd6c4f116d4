package zonewriter

import "sync"

const (
	// chunkBytes is the size of the chunks that small batches share. Chunks are pooled over all streams.
	chunkBytes = 128 << 10
	// ownBytes is the size above which a batch has memory of its own, of exactly its size: next to small ones it would
	// leave too much of a chunk empty.
	ownBytes = chunkBytes / 4
)

// arena is the memory for one stream's batches between their arrival and their copy into the writer. Small batches share
// chunks: the capacity held follows the bytes held, however few of them a frame has. Frames are released in the order in
// which they came. Methods are safe for concurrent use by one reader and one releaser.
type arena struct {
	mu struct {
		sync.Mutex
		open *chunk // the chunk that the next small batch goes to; nil if none is open
		held int    // capacity of the batches and chunks in use
	}
}

// chunk is memory that batches of several frames share.
type chunk struct {
	bytes []byte // len is what is in use
	users int    // frames with batches in it; guarded by arena.mu
}

var chunks = sync.Pool{New: func() any { return &chunk{bytes: make([]byte, 0, chunkBytes)} }}

// room is memory that a frame uses: a chunk, or one batch's own memory.
type room struct {
	chunk *chunk // nil if the batch has memory of its own
	own   int    // capacity of that memory
}

// small returns n bytes, at most ownBytes, in a chunk. It adds the chunk to the rooms of the batch's frame.
func (a *arena) small(n int, rooms []room) ([]byte, []room) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := a.mu.open
	if c == nil || cap(c.bytes)-len(c.bytes) < n {
		c = chunks.Get().(*chunk)
		a.mu.open = c
		a.mu.held += chunkBytes
	}
	at := len(c.bytes)
	c.bytes = c.bytes[:at+n]
	if len(rooms) == 0 || rooms[len(rooms)-1].chunk != c {
		c.users++
		rooms = append(rooms, room{chunk: c})
	}
	return c.bytes[at : at+n : at+n], rooms
}

// grown accounts for a batch's own memory, which now has a capacity.
func (a *arena) grown(r *room, capacity int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.held += capacity - r.own
	r.own = capacity
}

// release ends a frame's use of its rooms. A chunk that no frame uses goes back to the pool.
func (a *arena) release(rooms []room) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range rooms {
		a.mu.held -= r.own
		if r.chunk == nil {
			continue
		}
		if r.chunk.users--; r.chunk.users > 0 {
			continue
		}
		if a.mu.open == r.chunk {
			a.mu.open = nil
		}
		r.chunk.bytes = r.chunk.bytes[:0]
		chunks.Put(r.chunk)
		a.mu.held -= chunkBytes
	}
}
