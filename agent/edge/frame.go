package edge

import (
	"io"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// A frame's first buffer has firstBuffer bytes, or as many as its connection has filled before, up to provenBuffer. A full buffer grows by
// growth.
const (
	firstBuffer  = 4 << 10
	provenBuffer = 4 << 20
	growth       = 4
)

// frame is the memory of one request: its reservation and its buffer, returned once.
type frame struct {
	conn    *conn
	budget  *budget
	arrival *arrival
	held    int64 // bytes reserved
	buf     *[]byte
	free    atomic.Bool // returned
}

// release returns the frame's memory. Only the first call has an effect.
func (f *frame) release() {
	if f.free.Swap(true) {
		return
	}
	if f.buf != nil {
		if poison {
			p := *f.buf
			p[0] = 0xdb
			for n := 1; n < len(p); n *= 2 {
				copy(p[n:], p[:n])
			}
		}
		putBuffer(f.buf)
	}
	f.budget.release(f.arrival)
	f.conn.queue.freed(f.held)
}

// reserve takes bytes more of the budget. While it waits, the client is not expected to send.
func (f *frame) reserve(bytes int64) error {
	c := f.conn
	c.arriving.Store(false)
	err := f.budget.reserve(c.stopping, bytes, f.arrival)
	if err != nil {
		return err
	}
	f.held += bytes
	c.queue.held(bytes)
	c.lastRead.Store(time.Now().UnixNano())
	c.arriving.Store(true)
	return nil
}

// readBody reads the size bytes that follow a frame's prefix, with memory of the budget. The connection's proven size
// is the largest buffer that it has filled before.
func (c *conn) readBody(b *budget, size int) (*frame, []byte, error) {
	_, capacity := classOf(size)
	f := &frame{conn: c, budget: b, arrival: &arrival{
		size: int64(capacity), trusted: capacity <= growth*c.proven, evict: func() { c.stall(int64(size)) },
	}}
	body, err := c.fill(f, size)
	c.arriving.Store(false)
	if err != nil {
		f.release()
		return nil, nil, err
	}
	b.arrived(f.arrival)
	c.proven = max(capacity, c.proven-c.proven/8)
	return f, body, nil
}

// stall closes the connection of a frame that arrived too slowly.
func (c *conn) stall(size int64) {
	c.server.warn("connection closed: its request arrives too slowly, and others wait for memory; raise --memory-limit if this happens without an attack", c,
		zap.Int64("request_bytes", size))
	c.abort(closeStalled)
}

// fill reads size bytes into the frame's buffer, growing it as it fills.
func (c *conn) fill(f *frame, size int) ([]byte, error) {
	_, first := classOf(min(size, max(firstBuffer, min(c.proven, provenBuffer))))
	if err := f.reserve(int64(first)); err != nil {
		return nil, err
	}
	f.buf = getBuffer(first)
	filled := 0
	for filled < size {
		if filled == cap(*f.buf) {
			if err := f.grow(filled, min(size, filled*growth)); err != nil {
				return nil, err
			}
		}
		p := (*f.buf)[:cap(*f.buf)]
		n, err := c.in.Read(p[filled:min(size, len(p))])
		filled += n
		if err != nil && filled < size {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		now := time.Now().UnixNano()
		f.arrival.progress.Store(now)
		f.arrival.received.Store(int64(filled))
		c.lastRead.Store(now)
	}
	return (*f.buf)[:size:size], nil
}

// grow moves the first filled bytes to a buffer for n bytes.
func (f *frame) grow(filled, n int) error {
	old := f.buf
	_, capacity := classOf(n)
	if err := f.reserve(int64(capacity - cap(*old))); err != nil {
		return err
	}
	f.budget.force(int64(cap(*old)))
	f.buf = getBuffer(n)
	copy((*f.buf)[:n], (*old)[:filled])
	putBuffer(old)
	f.budget.unforce(int64(cap(*old)))
	return nil
}
