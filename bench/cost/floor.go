package cost

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"

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
	Endpoint string // URL of the S3 endpoint and bucket, such as http://127.0.0.1:9000/bucket
	Client   *http.Client
	TLS      *tls.Config // nil: plain TCP
	memory   []byte
	slots    chan []byte // object buffers: their number bounds the PUTs under way
	objects  chan int
}

// NewFloor prepares the buffers that a floor uses for all its connections.
func NewFloor(endpoint string, client *http.Client, tlsConfig *tls.Config) *Floor {
	f := &Floor{
		Endpoint: endpoint, Client: client, TLS: tlsConfig,
		memory:  make([]byte, floorObjectBytes),
		slots:   make(chan []byte, floorPutsAtOnce),
		objects: make(chan int, 1),
	}
	for range floorPutsAtOnce {
		f.slots <- make([]byte, floorObjectBytes)
	}
	f.objects <- 0
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
		if n == 0 {
			f.slots <- object
			return nil
		}
		err := f.put(ctx, object[:n], crc)
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

func (f *Floor) put(ctx context.Context, object []byte, crc uint32) error {
	number := <-f.objects
	f.objects <- number + 1
	url := fmt.Sprintf("%s/floor/%d", f.Endpoint, number)
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(object))
	if err != nil {
		return fmt.Errorf("make request: %w", err)
	}
	req.Header.Set("X-Amz-Checksum-Crc32c", checksumHeader(crc))
	resp, err := f.Client.Do(req)
	if err != nil {
		return fmt.Errorf("put object: %w", err)
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
