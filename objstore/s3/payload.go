package s3

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/freshet-io/freshet/objstore"
)

// errDetached ends the reading of a payload whose put has returned.
var errDetached = errors.New("put returned before its body was sent")

// writeAtOnce is how many bytes go into one system call: large enough that calls do not matter, small enough that
// detach does not wait long.
const writeAtOnce = 1 << 20

// payload guards a put's buffers. net/http may go on reading a request's body for a while after the round trip
// returned (an early answer, a cancelled context); once detach has returned, nothing touches the buffers any more.
type payload struct {
	size int64

	mu      sync.Mutex
	buffers [][]byte // nil once detached
	gone    bool
}

// withPayload calls send with a context whose request has the body as its payload. When it returns nothing reads the
// buffers any more.
func withPayload(ctx context.Context, body objstore.Body, send func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	p := &payload{buffers: body.Buffers, size: body.Size}
	defer p.detach()
	defer cancel() // before detach: the connection of a put that is over is closed, so that detach need not wait
	return send(context.WithValue(ctx, payloadKey{}, p))
}

// detach takes the buffers away from all readers. It waits for at most one read or one vectored write; the latter
// ends because the transport closes the connection of a request that is over.
func (p *payload) detach() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.buffers, p.gone = nil, true
}

// reader gives a reader of the whole payload.
func (p *payload) reader() *payloadReader { return &payloadReader{payload: p} }

// payloadReader reads a payload from front to back. One goroutine uses it at a time.
type payloadReader struct {
	*payload
	index  int      // of the buffer being read
	offset int      // in it
	vector [][]byte // reused by writeTo
}

// Read copies from the buffers, for connections that cannot take vectors (TLS).
func (r *payloadReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return 0, errDetached
	}
	n := 0
	for n < len(p) && r.index < len(r.buffers) {
		got := copy(p[n:], r.buffers[r.index][r.offset:])
		n += got
		r.advance(got)
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Close does nothing: detach is what ends reading.
func (r *payloadReader) Close() error { return nil }

// writeTo writes up to limit bytes to the connection straight from the buffers.
func (r *payloadReader) writeTo(conn *net.TCPConn, limit int64) (int64, error) {
	var written int64
	for written < limit {
		n, err := r.writePiece(conn, limit-written)
		written += n
		if err != nil {
			return written, err
		}
		if n == 0 {
			return written, nil
		}
	}
	return written, nil
}

func (r *payloadReader) writePiece(conn *net.TCPConn, limit int64) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone {
		return 0, errDetached
	}
	left := int(min(limit, writeAtOnce))
	r.vector = r.vector[:0]
	for left > 0 && r.index < len(r.buffers) {
		piece := r.buffers[r.index][r.offset:]
		piece = piece[:min(len(piece), left)]
		if len(piece) > 0 {
			r.vector = append(r.vector, piece)
		}
		left -= len(piece)
		r.advance(len(piece))
	}
	vector := net.Buffers(r.vector) // WriteTo consumes its receiver, r.vector keeps the capacity
	n, err := vector.WriteTo(conn)
	clear(r.vector)
	return n, err
}

// advance moves past n bytes of the current buffer.
func (r *payloadReader) advance(n int) {
	r.offset += n
	if r.offset == len(r.buffers[r.index]) {
		r.index++
		r.offset = 0
	}
}

// vectorConn sends payloads by vectored writes. net/http hands a request's body to its connection's ReadFrom where
// there is one, as a LimitedReader around the body; anything else takes the usual way.
type vectorConn struct{ *net.TCPConn }

func (c vectorConn) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return c.TCPConn.ReadFrom(r)
	}
	body, ok := limited.R.(*payloadReader)
	if !ok {
		return c.TCPConn.ReadFrom(r)
	}
	n, err := body.writeTo(c.TCPConn, limited.N)
	limited.N -= n
	return n, err
}

// stream stands for a payload where the SDK looks for its length. It is never read: httpClient puts the payload in
// its place.
type stream struct{ size int64 }

func (s stream) Read([]byte) (int, error) { return 0, errDetached }

func (s stream) Len() int { return int(s.size) }

func (s stream) Seek(offset int64, whence int) (int64, error) {
	if whence == io.SeekEnd {
		return s.size + offset, nil
	}
	return offset, nil
}
