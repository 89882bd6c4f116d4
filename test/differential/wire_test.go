package differential

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
)

// wireLimit bounds the wait for one answer. Parked joins are answered within their rebalance time-out.
const wireLimit = 3 * time.Minute

// wire is a connection that sends requests in the version they have, one at a time.
type wire struct {
	address, clientID string
	conn              net.Conn // nil before the first request and after a failure
	correlation       int32
}

// do sends a request and reads its answer. A connection that the server closed is opened again with the next request.
func (w *wire) do(req kmsg.Request) (kmsg.Response, error) {
	resp, err := w.exchange(req)
	if err != nil {
		w.close()
	}
	return resp, err
}

func (w *wire) close() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

func (w *wire) exchange(req kmsg.Request) (kmsg.Response, error) {
	if w.conn == nil {
		conn, err := net.DialTimeout("tcp", w.address, 10*time.Second)
		if err != nil {
			return nil, err
		}
		w.conn = conn
	}
	w.correlation++
	if err := w.conn.SetDeadline(time.Now().Add(wireLimit)); err != nil {
		return nil, err
	}
	format := kmsg.NewRequestFormatter(kmsg.FormatterClientID(w.clientID))
	if _, err := w.conn.Write(format.AppendRequest(nil, req, w.correlation)); err != nil {
		return nil, err
	}
	body, err := w.frame()
	if err != nil {
		return nil, err
	}
	if req.IsFlexible() && req.Key() != kafkaproto.KeyApiVersions {
		body = body[1:] // no tags in the header
	}
	resp := req.ResponseKind()
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s version %d: answer: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return resp, nil
}

// frame reads one response and returns what follows the correlation id.
func (w *wire) frame() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(w.conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.conn, body); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != w.correlation {
		return nil, fmt.Errorf("correlation id %d, want %d", got, w.correlation)
	}
	return body[4:], nil
}
