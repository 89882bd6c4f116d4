package cost

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/url"

	"golang.org/x/sync/errgroup"
)

// Sizes of the floor's work: the same flush size as the agent's, frames of the size that shape A's clients send.
const (
	floorObjectBytes = 8 << 20
	floorPutsAtOnce  = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Floor is the cheapest program that could do an agent's work. A connection says in its first byte which half it
// wants: 'p', and everything it sends is checksummed and put; or 'f' with a count of bytes (uint64, big endian), and
// that many are sent to it from memory.
type Floor struct {
	Endpoint *url.URL    // S3 endpoint and bucket, such as http://127.0.0.1:9000/bucket
	TLS      *tls.Config // nil: plain TCP
	memory   []byte
	slots    chan []byte // object buffers: their number bounds the PUTs under way
	conns    chan *storeConn
}

// NewFloor prepares the buffers that a floor uses for all its connections.
func NewFloor(endpoint *url.URL, tlsConfig *tls.Config) *Floor {
	f := &Floor{
		Endpoint: endpoint, TLS: tlsConfig,
		memory: make([]byte, floorObjectBytes),
		slots:  make(chan []byte, floorPutsAtOnce),
		conns:  make(chan *storeConn, floorPutsAtOnce),
	}
	for i := range floorPutsAtOnce {
		f.slots <- make([]byte, floorObjectBytes)
		f.conns <- &storeConn{number: i}
	}
	return f
}

// Serve takes connections until ctx ends.
func (f *Floor) Serve(ctx context.Context, l net.Listener) error {
	group, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return group.Wait()
			}
			return fmt.Errorf("accept: %w", err)
		}
		if f.TLS != nil {
			conn = tls.Server(conn, f.TLS)
		}
		group.Go(func() error { return f.serve(ctx, conn) })
	}
}

func (f *Floor) serve(ctx context.Context, conn net.Conn) error {
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	var kind [1]byte
	if _, err := io.ReadFull(conn, kind[:]); err != nil {
		return nil // a port scan, or the client went away
	}
	if kind[0] == 'f' {
		return f.send(conn)
	}
	return f.receive(ctx, conn)
}

// receive reads straight into an object's buffer, checksums each read while it is warm in cache, and puts full ones.
func (f *Floor) receive(ctx context.Context, conn net.Conn) error {
	for {
		object := <-f.slots
		var n int
		var crc uint32
		var readErr error
		for n < len(object) && readErr == nil {
			var got int
			got, readErr = conn.Read(object[n:min(n+frameBytes, len(object))])
			crc = crc32.Update(crc, castagnoli, object[n:n+got])
			n += got
		}
		var err error
		if n > 0 {
			err = f.put(ctx, object[:n], crc)
		}
		f.slots <- object
		if err != nil {
			return err
		}
		if readErr != nil {
			_, err := conn.Write([]byte{'k'}) // everything received is stored
			return err
		}
	}
}

// put writes the request by hand on a kept connection: header and object, each one write, no copies between. An HTTP
// client would copy the body once more, and a floor must not.
func (f *Floor) put(ctx context.Context, object []byte, crc uint32) error {
	c := <-f.conns
	defer func() { f.conns <- c }()
	if c.conn == nil {
		if err := c.dial(ctx, f.Endpoint); err != nil {
			return err
		}
	}
	c.puts++
	_, err := fmt.Fprintf(c.conn, "PUT %s/floor/%d-%d HTTP/1.1\r\nHost: %s\r\nContent-Length: %d\r\nX-Amz-Checksum-Crc32c: %s\r\n\r\n",
		f.Endpoint.Path, c.number, c.puts, f.Endpoint.Host, len(object), checksumHeader(crc))
	if err != nil {
		return fmt.Errorf("put object: %w", err)
	}
	if _, err := c.conn.Write(object); err != nil {
		return fmt.Errorf("put object: %w", err)
	}
	resp, err := http.ReadResponse(c.answers, nil)
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("put object: status %s", resp.Status)
	}
	return nil
}

// storeConn is a kept connection to the object store.
type storeConn struct {
	number, puts int
	conn         net.Conn
	answers      *bufio.Reader
}

func (c *storeConn) dial(ctx context.Context, endpoint *url.URL) error {
	conn, err := dialStore(ctx, endpoint)
	if err != nil {
		return fmt.Errorf("connect to object store: %w", err)
	}
	c.conn, c.answers = conn, bufio.NewReader(conn)
	return nil
}

func dialStore(ctx context.Context, endpoint *url.URL) (net.Conn, error) {
	if endpoint.Scheme == "https" {
		return (&tls.Dialer{Config: clientTLS()}).DialContext(ctx, "tcp", endpoint.Host)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", endpoint.Host)
}

func (f *Floor) send(conn net.Conn) error {
	var count [8]byte
	if _, err := io.ReadFull(conn, count[:]); err != nil {
		return fmt.Errorf("read count: %w", err)
	}
	left := binary.BigEndian.Uint64(count[:])
	for left > 0 {
		n := min(left, uint64(len(f.memory)))
		if _, err := conn.Write(f.memory[:n]); err != nil {
			return fmt.Errorf("send: %w", err)
		}
		left -= n
	}
	return nil
}
