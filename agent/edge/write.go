package edge

import (
	"io"
	"net"
	"time"

	"go.uber.org/zap"

	"github.com/freshet-io/freshet/kafkaproto"
)

const (
	// writeChunk bounds one write call, so that a slow client's progress is seen between calls.
	writeChunk = 1 << 20
	// answerRate is the rate, in bytes per second, at which a large answer without records is to be taken while others wait for its memory.
	answerRate = 8 << 20
	// smallReply is up to what size pieces, and small answers, are copied together for one write.
	smallReply = 4 << 10
	// tlsRecord is the largest TLS record; smaller pieces are gathered to it.
	tlsRecord = 16 << 10
)

// write answers the requests in order until the queue is closed and empty. Requests of an aborted connection are
// waited for all the same, so that handlers and memory come to their end.
func (c *conn) write() {
	for {
		it, ok := c.queue.next()
		if !ok {
			return
		}
		if it.wait == nil {
			c.abort(it.reason)
			c.queue.answered(it)
			continue
		}
		reply, ok := c.resolve(it)
		it.frame.release()
		c.queue.answered(it)
		if ok {
			c.send(it, &reply)
		}
		c.place.End()
	}
}

// resolve waits for a request's answer. False: the handler panicked, and the connection was closed.
func (c *conn) resolve(it item) (reply Reply, ok bool) {
	defer func() {
		if p := recover(); p != nil {
			c.logPanic(p)
			c.abort(closePanic)
		}
	}()
	return it.wait(), true
}

// send writes one reply and gives its memory back.
func (c *conn) send(it item, reply *Reply) {
	if reply.Release != nil {
		defer reply.Release()
	}
	if !c.aborted.Load() {
		if err := c.writeReply(it, reply); err != nil {
			c.abort(closeError)
		}
	}
	c.server.m.observe(it.key, time.Since(it.arrived))
	c.server.m.failed(it.key, reply.Errors)
	if reply.Close && !c.aborted.Load() {
		if reply.Err != nil {
			c.server.warn("connection closed by a request", c, zap.Int16("api_key", it.key),
				zap.Int16("api_version", it.version), zap.Error(reply.Err))
		}
		c.abort(closeHandler)
	}
}

// writeReply writes the reply, or leaves it to be written with the next one, if that is there already: a commit answers
// several produces of a connection at once, and each write wakes the client.
func (c *conn) writeReply(it item, reply *Reply) error {
	if !reply.Silent {
		size := reply.size()
		c.server.unsent.Add(int64(size))
		defer c.server.unsent.Add(-int64(size))
		if len(reply.Tail) == 0 && size > writeChunk {
			c.due.Store(time.Now().Add(stallTimeout + time.Duration(float64(size)/answerRate*float64(time.Second))).UnixNano())
			defer c.due.Store(0)
		}
		c.out.header = kafkaproto.AppendResponseHeader(c.out.header[:0], it.key, it.version, it.correlationID, size)
		c.server.m.responseBytes.Add(float64(size + len(c.out.header)))
		if err := c.out.write(c, reply.Head, reply.Tail); err != nil {
			return err
		}
	}
	if !reply.Close && c.queue.ready() {
		return nil
	}
	return c.out.flush(c)
}

// output writes replies to a connection: several pieces by one system call, or gathered to whole records under TLS.
// What is gathered is written by flush at the latest.
type output struct {
	to      io.Writer
	tls     bool
	header  []byte
	gather  []byte      // small pieces and answers copied together, not written yet
	pieces  net.Buffers // of the chunk being written
	queued  int         // their bytes
	vectors net.Buffers // the same, consumed by WriteTo
}

// write sends what is gathered, the header, head and tail. The end, copied, may stay gathered: answers of less than
// smallReply bytes, less than a record under TLS.
func (o *output) write(c *conn, head []byte, tail net.Buffers) error {
	if o.tls {
		return o.writeRecords(c, head, tail)
	}
	o.gather = append(o.gather, o.header...)
	if len(head) <= smallReply {
		o.gather = append(o.gather, head...)
		head = nil
		switch {
		case len(tail) > 0:
		case len(o.gather) < smallReply:
			return nil
		default:
			return o.flush(c)
		}
	}
	o.pieces, o.queued = append(o.pieces[:0], o.gather), len(o.gather)
	if err := o.add(c, head); err != nil {
		return err
	}
	for _, p := range tail {
		if err := o.add(c, p); err != nil {
			return err
		}
	}
	err := o.writePieces(c)
	o.gather = o.gather[:0]
	return err
}

// flush writes what is gathered.
func (o *output) flush(c *conn) error {
	if len(o.gather) == 0 {
		return nil
	}
	err := o.timed(c, func() error { _, err := o.to.Write(o.gather); return err })
	o.gather = o.gather[:0]
	return err
}

// add queues a piece, writing whenever a chunk is full.
func (o *output) add(c *conn, p []byte) error {
	for len(p) > 0 {
		n := min(len(p), writeChunk)
		if o.queued+n > writeChunk && len(o.pieces) > 0 {
			if err := o.writePieces(c); err != nil {
				return err
			}
		}
		o.pieces, o.queued = append(o.pieces, p[:n]), o.queued+n
		p = p[n:]
	}
	return nil
}

func (o *output) writePieces(c *conn) error {
	if len(o.pieces) == 0 {
		return nil
	}
	o.vectors = o.pieces
	err := o.timed(c, func() error { _, err := o.vectors.WriteTo(o.to); return err })
	clear(o.pieces) // do not keep cache memory alive
	o.pieces, o.queued = o.pieces[:0], 0
	return err
}

// writeRecords gathers pieces so that TLS records are full: each Write of a TLS connection ends a record.
func (o *output) writeRecords(c *conn, head []byte, tail net.Buffers) error {
	if err := o.gatherRecord(c, o.header); err != nil {
		return err
	}
	if err := o.gatherRecord(c, head); err != nil {
		return err
	}
	for _, p := range tail {
		if err := o.gatherRecord(c, p); err != nil {
			return err
		}
	}
	return nil
}

func (o *output) gatherRecord(c *conn, p []byte) error {
	for len(p) > 0 {
		if len(o.gather) == 0 && len(p) >= tlsRecord {
			whole := min(len(p), writeChunk) / tlsRecord * tlsRecord
			if err := o.writeRecord(c, p[:whole]); err != nil {
				return err
			}
			p = p[whole:]
			continue
		}
		n := min(len(p), tlsRecord-len(o.gather))
		o.gather = append(o.gather, p[:n]...)
		p = p[n:]
		if len(o.gather) == tlsRecord {
			if err := o.writeRecord(c, o.gather); err != nil {
				return err
			}
			o.gather = o.gather[:0]
		}
	}
	return nil
}

func (o *output) writeRecord(c *conn, p []byte) error {
	if len(p) == 0 {
		return nil
	}
	return o.timed(c, func() error { _, err := o.to.Write(p); return err })
}

// timed runs one write and says to the sweep when it began and ended.
func (o *output) timed(c *conn, write func() error) error {
	c.writing.Store(time.Now().UnixNano())
	err := write()
	c.writing.Store(0)
	c.lastWrite.Store(time.Now().UnixNano())
	return err
}
