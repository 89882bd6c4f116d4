package edge

import (
	"io"
	"sync/atomic"
	"time"
)

// firstBuffer is the largest buffer given for a claimed size before any byte of the frame came; from then on the
// buffer grows by growth as it fills. A connection that delivered larger frames before gets that much at once.
const (
	firstBuffer = 64 << 10
	growth      = 4
)

// frame is the memory of one request: its reservation and its buffer, given back once.
type frame struct {
	conn     *conn
	budget   *budget
	reserved int64
	buf      *[]byte
	free     atomic.Bool // given back
}

// release gives the frame's memory back. Only the first call has an effect.
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
	f.budget.release(f.reserved)
	f.conn.queue.freed(f.reserved)
}

// readBody reads the size bytes that follow a frame's prefix, with memory of the budget. The connection's proven size
// is what it has delivered in one frame before.
func (c *conn) readBody(b *budget, size int) (*frame, []byte, error) {
	_, capacity := classOf(size)
	f := &frame{conn: c, budget: b, reserved: int64(capacity)}
	a := &arrival{trusted: capacity <= growth*c.proven, evict: func() { c.abort(closeStalled) }}
	if err := b.reserve(c.stopping, f.reserved, a); err != nil {
		f.free.Store(true)
		return nil, nil, err
	}
	c.queue.held(f.reserved)
	c.lastRead.Store(time.Now().UnixNano())
	c.arriving.Store(true)
	body, err := c.fill(f, a, size)
	c.arriving.Store(false)
	b.arrived(a)
	if err != nil {
		f.release()
		return nil, nil, err
	}
	c.proven = max(capacity, c.proven-c.proven/8)
	return f, body, nil
}

// fill reads size bytes into the frame's buffer, growing it as it fills.
func (c *conn) fill(f *frame, a *arrival, size int) ([]byte, error) {
	f.buf = getBuffer(min(size, max(firstBuffer, c.proven)))
	filled := 0
	for filled < size {
		if filled == cap(*f.buf) {
			f.grow(filled, min(size, filled*growth))
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
		a.progress.Store(now)
		a.received.Store(int64(filled))
		c.lastRead.Store(now)
	}
	return (*f.buf)[:size:size], nil
}

// grow moves the first filled bytes to a buffer for n bytes.
func (f *frame) grow(filled, n int) {
	old := f.buf
	f.budget.force(int64(cap(*old)))
	f.buf = getBuffer(n)
	copy((*f.buf)[:n], (*old)[:filled])
	putBuffer(old)
	f.budget.release(int64(cap(*old)))
}
