// Package wire is the least client there is: one connection, one request under way at a time, in the versions with the old
// headers. A process can hold many thousands of them, for benchmarks of what many clients cost.
package wire

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	dialTimeout    = 30 * time.Second
	requestTimeout = 5 * time.Minute // a join may wait for the rebalance time-out
	maxAnswer      = 16 << 20        // bytes
)

// Conn is a connection to a broker. It is for one goroutine.
type Conn struct {
	net.Conn
	in     *bufio.Reader
	format *kmsg.RequestFormatter
	out    []byte
	next   int32 // correlation id
}

// Dial connects.
func Dial(ctx context.Context, address string) (*Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &Conn{
		Conn: conn, in: bufio.NewReaderSize(conn, 512),
		format: kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")),
	}, nil
}

// Ask sends a request and decodes its answer.
func (c *Conn) Ask(req kmsg.Request, resp kmsg.Response) error {
	size, err := c.send(req)
	if err != nil {
		return err
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c.in, body); err != nil {
		return fmt.Errorf("answer of %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	resp.SetVersion(req.GetVersion())
	return resp.ReadFrom(body)
}

// AskUnread sends a request, and gives the size of its answer, in bytes, without looking into it.
func (c *Conn) AskUnread(req kmsg.Request) (int, error) {
	size, err := c.send(req)
	if err != nil {
		return 0, err
	}
	if _, err := c.in.Discard(size); err != nil {
		return 0, fmt.Errorf("answer of %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	return size, nil
}

// send sends a request and gives the size of its answer's body, which is next in c.in.
func (c *Conn) send(req kmsg.Request) (int, error) {
	c.next++
	c.out = c.format.AppendRequest(c.out[:0], req, c.next)
	if err := c.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return 0, fmt.Errorf("set deadline: %w", err)
	}
	if _, err := c.Write(c.out); err != nil {
		return 0, fmt.Errorf("send %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	var head [8]byte
	if _, err := io.ReadFull(c.in, head[:]); err != nil {
		return 0, fmt.Errorf("answer of %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	size := int(binary.BigEndian.Uint32(head[:])) - 4
	if size < 0 || size > maxAnswer || binary.BigEndian.Uint32(head[4:]) != uint32(c.next) {
		return 0, errors.New("an answer to something else")
	}
	return size, nil
}
