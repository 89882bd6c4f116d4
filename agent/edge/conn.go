package edge

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/internal/connlimit"
	"github.com/freshet-io/freshet/kafkaproto"
)

// readBuffer holds prefixes and small requests; bodies beyond it are read straight into their frames.
const readBuffer = 4 << 10

// lingerTimeout bounds how long a drained connection waits for its client to close.
const lingerTimeout = time.Second

// frameTimeout closes a connection that sends nothing for so long within a frame.
const frameTimeout = time.Minute

// handshakeTimeout bounds a TLS handshake, from the accept on.
const handshakeTimeout = 10 * time.Second

// closeReason says why a connection was closed: a label of metrics.
type closeReason string

const (
	closeClient      closeReason = "client"        // the client closed it
	closeDrain       closeReason = "drain"         // this process stops
	closeIdle        closeReason = "idle"          // no requests for IdleTimeout
	closeAbroad      closeReason = "abroad"        // idle, and the client's own zone has agents
	closeEvicted     closeReason = "evicted"       // made room for another connection
	closeNoRequest   closeReason = "no_request"    // no request in time
	closeStalled     closeReason = "stalled_frame" // a frame stopped arriving
	closeSlowReader  closeReason = "slow_reader"   // the client does not take its answers
	closeBadFrame    closeReason = "bad_frame"     // no Kafka frame
	closeUnsupported closeReason = "unsupported"   // api or version not served
	closeHandler     closeReason = "handler"       // the handler asked for it
	closePanic       closeReason = "panic"
	closeHandshake   closeReason = "tls_handshake"
	closeError       closeReason = "error" // of the network
)

var closeReasons = []closeReason{
	closeClient, closeDrain, closeIdle, closeAbroad, closeEvicted, closeNoRequest, closeStalled, closeSlowReader, closeBadFrame, closeUnsupported,
	closeHandler, closePanic, closeHandshake, closeError,
}

// overlaps reports whether requests of an API run side by side on one connection.
func overlaps(key int16) bool { return key == kafkaproto.KeyProduce }

// maxKeptID is the length in bytes of the longest client id that a connection keeps: ids are up to 32 KiB, and no budget counts them.
// Longer ones are read anew with each request.
const maxKeptID = 1 << 10

// conn is one client connection: a reader goroutine, which runs serve, and a writer goroutine. The writer and the read buffer
// begin with the first frame, so that a silent connection takes little memory.
//
// It ends in one of two ways. stop lets the requests that were read be answered, then closes; abort closes at once
// and ends ctx. Either closes the channel stopping, so that the reader never waits past it.
type conn struct {
	server *Server
	client *Client
	raw    net.Conn      // the socket
	nc     net.Conn      // raw, or TLS over it
	in     *bufio.Reader // nil before the first frame
	out    *output
	writer chan struct{} // closed when the writer has ended; nil before the first frame
	queue  *queue
	place  *connlimit.Place

	ctx      context.Context
	cancel   context.CancelFunc
	stopping chan struct{}
	stopOnce sync.Once
	aborted  atomic.Bool
	reason   atomic.Pointer[closeReason]

	lastRead  atomic.Int64 // UnixNano
	lastWrite atomic.Int64
	waiting   atomic.Bool  // for the next request, with nothing unread
	arriving  atomic.Bool  // within a frame or handshake that the client has to go on with
	writing   atomic.Int64 // UnixNano when the write under way began; 0: none
	due       atomic.Int64 // UnixNano by which a large answer without records has to be taken if others wait; 0: none

	accepted time.Time
	clientID atomic.Pointer[string] // of the last request, so that it is not allocated each time; nil before the first
	proven   int                    // buffer size the connection has filled before
}

// serve runs the connection until it is closed.
func (c *conn) serve() {
	reason := c.read()
	if reason == closeDrain {
		c.stop()
	} else if reason != "" {
		c.abort(reason)
	}
	c.queue.close()
	if c.writer != nil {
		<-c.writer
	}
	c.setReason(closeDrain)
	if !c.aborted.Load() {
		c.linger()
	}
	_ = c.nc.Close()
	c.cancel()
}

// linger says goodbye and waits for the client to close, for lingerTimeout at most. Closing a socket with unread
// requests in it at once would reset it, and the answers on their way would be lost.
func (c *conn) linger() {
	raw, ok := c.raw.(interface{ CloseWrite() error })
	if !ok {
		return
	}
	if t, ok := c.nc.(*tls.Conn); ok {
		_ = t.CloseWrite()
	}
	_ = raw.CloseWrite()
	_ = c.raw.SetReadDeadline(time.Now().Add(lingerTimeout))
	_, _ = io.Copy(io.Discard, c.raw)
}

// stop ends reading. Requests that were read are still answered.
func (c *conn) stop() {
	c.stopOnce.Do(func() { close(c.stopping) })
	_ = c.raw.SetReadDeadline(time.Unix(1, 0))
}

// abort closes the socket at once and ends the connection's context. It does not block.
func (c *conn) abort(reason closeReason) {
	c.setReason(reason)
	c.aborted.Store(true)
	c.cancel()
	c.stopOnce.Do(func() { close(c.stopping) })
	_ = c.raw.Close()
}

// setReason keeps the first reason given.
func (c *conn) setReason(reason closeReason) { c.reason.CompareAndSwap(nil, &reason) }

// read takes requests until the connection ends. It returns the reason, or "" if the writer closes the connection
// after the answers before.
func (c *conn) read() (reason closeReason) {
	defer func() {
		if p := recover(); p != nil {
			c.logPanic(p)
			reason = closePanic
		}
	}()
	if !c.handshake() {
		return closeHandshake
	}
	for first := true; ; first = false {
		if !c.queue.room(c.stopping) {
			return closeDrain
		}
		prefix, err := c.readPrefix()
		if err != nil {
			return c.readError(err)
		}
		if first {
			c.begin()
		}
		if fault := c.refuse(prefix, first); fault != "" {
			c.queue.push(item{key: prefix.Key, reason: fault})
			return ""
		}
		if first {
			c.place.Arriving()
		}
		if err := c.request(prefix); err != nil {
			if !errors.Is(err, kafkaproto.ErrMalformed) {
				return c.readError(err)
			}
			c.server.warn("malformed request header", c, zap.Error(err))
			c.queue.push(item{key: prefix.Key, reason: closeBadFrame})
			return ""
		}
	}
}

// handshake runs the TLS handshake, if the listener has TLS.
func (c *conn) handshake() bool {
	t, ok := c.nc.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithDeadline(c.ctx, c.accepted.Add(handshakeTimeout))
	defer cancel()
	err := t.HandshakeContext(ctx) // closes the connection when ctx ends
	if err != nil {
		c.server.warn("tls handshake failed", c, zap.Error(err), zap.String("hint", handshakeHint(err)))
	}
	return err == nil
}

// begin starts the writer and makes the read buffer.
func (c *conn) begin() {
	c.in = bufio.NewReaderSize(c.nc, readBuffer)
	c.writer = make(chan struct{})
	go func() {
		defer close(c.writer)
		c.write()
	}()
}

// readPrefix reads the beginning of the next frame. The first one is read without the buffer, which does not exist yet.
func (c *conn) readPrefix() (kafkaproto.Prefix, error) {
	var p [kafkaproto.PrefixSize]byte
	var in io.Reader = c.nc
	if c.in != nil {
		in = c.in
	}
	c.waiting.Store(c.in == nil || c.in.Buffered() == 0)
	_, err := io.ReadFull(in, p[:])
	c.waiting.Store(false)
	if err != nil {
		return kafkaproto.Prefix{}, err
	}
	c.lastRead.Store(time.Now().UnixNano())
	return kafkaproto.ParsePrefix(p), nil
}

// refuse checks a frame before its body is read. It logs a fault and returns the reason of the close, or "".
func (c *conn) refuse(p kafkaproto.Prefix, first bool) closeReason {
	switch {
	case p.Size < kafkaproto.MinFrame || p.Size > c.server.cfg.MaxRequestBytes:
		hint := ""
		if first {
			hint = firstBytesHint(p, c.nc != c.raw)
		}
		c.server.warn("connection closed: not a kafka request, or too large", c, zap.Int32("size", p.Size),
			zap.Int32("max_request_bytes", c.server.cfg.MaxRequestBytes), zap.String("hint", hint))
		return closeBadFrame
	case p.Key != kafkaproto.KeyApiVersions && !kafkaproto.Serves(p.Key, p.Version):
		entry, _ := kafkaproto.Lookup(p.Key)
		c.server.warn("connection closed: api or version not served", c, zap.Int16("api_key", p.Key),
			zap.String("api", entry.Name), zap.Int16("api_version", p.Version),
			zap.Int16("min_version", entry.Served.Min), zap.Int16("max_version", entry.Served.Max),
			zap.String("hint", versionHint(p)))
		return closeUnsupported
	}
	return ""
}

// request reads the rest of a frame, starts its request and queues it for its answer.
func (c *conn) request(p kafkaproto.Prefix) error {
	budget := c.server.others
	if overlaps(p.Key) {
		budget = c.server.produce
	}
	// Before the body is read: a request behind a parked fetch holds no memory that others wait for.
	if !overlaps(p.Key) && !c.queue.turn(c.stopping) {
		return errStopped
	}
	f, frame, err := c.readBody(budget, int(p.Size)-(kafkaproto.PrefixSize-4))
	if err != nil {
		return err
	}
	header, body, err := kafkaproto.ParseHeader(p.Key, p.Version, frame)
	if err != nil {
		f.release()
		return err
	}
	if !c.place.Begin() { // the connection made room for another one
		f.release()
		return errStopped
	}
	id := c.clientID.Load()
	if id == nil || string(header.ClientID) != *id {
		// Bytes outside UTF-8 become U+FFFD, as in Apache Kafka (Readable.readString). The session with the owner takes text only.
		text := strings.ToValidUTF8(string(header.ClientID), "\uFFFD")
		id = &text
		if len(text) <= maxKeptID {
			c.clientID.Store(id)
		}
	}
	req := &Request{
		Key: p.Key, Version: p.Version, ClientID: *id, Body: body,
		Client: c.client, Arrived: time.Now(), frame: f, over: c.server.over, m: c.server.m,
	}
	c.server.m.requestBytes.Add(float64(p.Size) + 4)
	it := item{frame: f, key: p.Key, version: p.Version, correlationID: header.CorrelationID, arrived: req.Arrived}
	it.wait = c.start(req)
	it.done = req.Answered
	c.queue.push(it)
	return nil
}

// start runs the handler's Start, whose frame goes back if it panics.
func (c *conn) start(req *Request) func() Reply {
	started := false
	defer func() {
		if !started {
			req.frame.release()
		}
	}()
	wait := c.server.cfg.Handler.Start(c.ctx, req)
	started = true
	return wait
}

// readError names why reading ended.
func (c *conn) readError(err error) closeReason {
	select {
	case <-c.stopping:
		return closeDrain // or aborted, which has its reason already
	default:
	}
	for _, gone := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.EPIPE} {
		if errors.Is(err, gone) {
			return closeClient
		}
	}
	return closeError
}

func (c *conn) logPanic(p any) {
	c.server.cfg.Log.Error("panic in a kafka handler; connection closed", zap.String("panic", fmt.Sprint(p)),
		zap.String("client_host", c.client.Host), zap.ByteString("stack", debug.Stack()))
}
