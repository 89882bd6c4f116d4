// Package edge is the agent's Kafka listener: connections, frames, their memory, and the order of answers. It knows
// nothing of what a request means beyond which API it is.
//
// Each connection has two goroutines. The reader takes frames off the socket and starts each request in order; the
// writer waits for the answers in the same order and writes them. Nothing else runs per request.
//
// Frame memory comes from two budgets, one for Produce and one for everything else, so that produces waiting for a
// slow store never hold up heartbeats and fetches. The memory of a frame follows its bytes, so a claimed size holds nothing. While
// frames wait for memory, frames that arrive slowly lose their connection (budget).
package edge

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

// Request is one framed Kafka request. Body aliases the frame's buffer and is valid until the handler's Reply is
// resolved, or until the handler called Release, whichever is first.
type Request struct {
	Key      int16
	Version  int16
	ClientID string // "" if null
	Body     []byte // after the header
	Client   *Client
	Arrived  time.Time // when the frame was read whole
	// Answered, which Start may set, is closed when the reply needs no more waiting: replies that are there together are
	// written together.
	Answered <-chan struct{}

	frame *frame
	over  <-chan struct{} // closed when a draining listener waits no longer; nil: never
	m     *metrics        // of the server; nil in tests of handlers
}

// Trim cuts the body to its first size bytes, which are all that the API's schema describes. Apache Kafka ignores the
// bytes after them, and so does every handler. A request that had such bytes is counted once.
func (r *Request) Trim(size int) {
	if size >= len(r.Body) {
		return
	}
	r.Body = r.Body[:size]
	if r.m != nil {
		r.m.trailed(r.Key)
	}
}

// Outlive gives a context for work that goes on when ctx, the one given to Start, ends: for up to d after that, but not
// for longer than a draining listener waits for its connections. What was read from a connection that its client closed
// is still done so.
func (r *Request) Outlive(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		defer cancel()
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.over:
		case <-longer.Done():
		}
	})
	return longer, func() {
		stop()
		cancel()
	}
}

// Release gives the frame's memory back before the reply: the handler has copied what it needs. Further calls have
// no effect.
func (r *Request) Release() {
	r.Body = nil
	if r.frame != nil {
		r.frame.release()
	}
}

// Client is what is known of the connection a request came by.
type Client struct {
	ID        uint64 // unique in this process
	Host      string // remote address without port
	Port      string // of the remote address
	Principal string // "User:ANONYMOUS" until authenticated
	Listener  string // listener name
	PortIndex int    // index among all ports of the agent, in the order of --kafka-listen; selects the node id

	// Pace holds the times of the connection's produce requests. It belongs to the Produce API.
	Pace Pace

	conn     *conn // nil in tests of handlers
	software atomic.Pointer[Software]
}

// Parked reports whether exactly so many requests of the connection are unanswered, and the reader waits for the client with
// no byte unread.
func (c *Client) Parked(requests int) bool {
	return c.conn != nil && c.conn.waiting.Load() && int(c.conn.queue.inFlight.Load()) == requests
}

// Pace holds the times of the produce requests of one connection, as UnixNano. The connection's reader alone uses the fields that are
// not atomic.
type Pace struct {
	Arrived  int64 // newest request
	Burst    int64 // first request of the newest window that waited for an answer
	Most     int32 // requests in flight since then
	Answered atomic.Int64
	InFlight atomic.Int32
}

// Software is what a client says it is (KIP-511).
type Software struct{ Name, Version string }

// SetSoftware notes what the client said.
func (c *Client) SetSoftware(s Software) { c.software.Store(&s) }

// Software gives what the client said it is, "unknown" if it did not.
func (c *Client) Software() Software {
	if s := c.software.Load(); s != nil {
		return *s
	}
	return Software{Name: "unknown", Version: "unknown"}
}

// Reply is a response without its size and header. It is written Head first, then Tail.
type Reply struct {
	Head []byte
	Tail net.Buffers // record bytes, aliasing cache memory
	// Errors are the error codes in the answer other than 0, for metrics.
	Errors []int16
	// Release is called once, when the bytes were written or never will be.
	Release func()
	// Silent: there is no answer (produce with acks=0).
	Silent bool
	// Close closes the connection after the answers before this one were written (bad requests; failed acks=0).
	Close bool
	// Err says why the connection is closed, for the log; it has no other effect.
	Err error
}

// size is the reply's body in bytes.
func (r *Reply) size() int {
	n := len(r.Head)
	for _, p := range r.Tail {
		n += len(p)
	}
	return n
}

// Handler answers requests. Start is called by the connection's reader in request order and must not block except
// where back-pressure is meant (a Produce that waits for write buffers). It returns the function that gives the
// reply: the edge calls it once, on the connection's writer, after the replies before it were written, and also when
// the connection is gone by then, so that it can clean up.
//
// Only Produce overlaps Produce; any other request is started after the earlier non-Produce requests of its
// connection were answered (I2). ctx ends when the connection does: a request whose effect must not be
// lost with the connection (Produce) has to go on without it.
type Handler interface {
	Start(ctx context.Context, req *Request) (wait func() Reply)
}
