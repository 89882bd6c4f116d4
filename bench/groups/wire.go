package groups

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
	maxAnswer      = 1 << 20         // bytes
)

// wire is one connection, with one request under way at a time. Only versions with the old headers are used.
type wire struct {
	conn   net.Conn
	in     *bufio.Reader
	format *kmsg.RequestFormatter
	out    []byte
	next   int32 // correlation id
}

func dial(ctx context.Context, address string) (*wire, error) {
	d := net.Dialer{Timeout: dialTimeout}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &wire{
		conn: conn, in: bufio.NewReaderSize(conn, 512),
		format: kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")),
	}, nil
}

func (w *wire) close() { _ = w.conn.Close() }

// ask sends a request and reads its answer.
func (w *wire) ask(req kmsg.Request, resp kmsg.Response) error {
	w.next++
	w.out = w.format.AppendRequest(w.out[:0], req, w.next)
	if err := w.conn.SetDeadline(time.Now().Add(requestTimeout)); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	if _, err := w.conn.Write(w.out); err != nil {
		return fmt.Errorf("send %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	var head [8]byte
	if _, err := io.ReadFull(w.in, head[:]); err != nil {
		return fmt.Errorf("answer of %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	size := int(binary.BigEndian.Uint32(head[:])) - 4
	if size < 0 || size > maxAnswer || binary.BigEndian.Uint32(head[4:]) != uint32(w.next) {
		return errors.New("an answer to something else")
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(w.in, body); err != nil {
		return fmt.Errorf("answer of %s: %w", kmsg.NameForKey(req.Key()), err)
	}
	resp.SetVersion(req.GetVersion())
	return resp.ReadFrom(body)
}
