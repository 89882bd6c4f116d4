package clients

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/freshet-io/freshet/kafkaproto"
)

// wireLimit bounds the wait for one answer.
const wireLimit = 3 * time.Minute

// errClosed says that the server closed the connection without an answer.
var errClosed = errors.New("connection closed without an answer")

// wire is a connection that sends requests as they are, in whatever version they say.
type wire struct {
	net.Conn
	format      *kmsg.RequestFormatter
	correlation int32
	trailing    int // bytes after the last field of each request
}

func dial(t testing.TB, address string) *wire {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, wireLimit)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return &wire{Conn: conn, format: kmsg.NewRequestFormatter(kmsg.FormatterClientID("wire"))}
}

// send writes a request without waiting for its answer.
func (w *wire) send(req kmsg.Request) error {
	w.correlation++
	frame := w.format.AppendRequest(nil, req, w.correlation)
	frame = append(frame, make([]byte, w.trailing)...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	_, err := w.Write(frame)
	return err
}

// receive reads the answer to req, the oldest one that was not answered, which had the correlation id given.
func (w *wire) receive(req kmsg.Request, correlation int32) (kmsg.Response, error) {
	if err := w.SetReadDeadline(time.Now().Add(wireLimit)); err != nil {
		return nil, err
	}
	body, err := w.frame(correlation)
	if err != nil {
		return nil, err
	}
	resp := req.ResponseKind()
	if req.IsFlexible() && req.Key() != kafkaproto.KeyApiVersions {
		if len(body) == 0 || body[0] != 0 {
			return nil, fmt.Errorf("%s version %d: header of a flexible answer has tags", kmsg.NameForKey(req.Key()), req.GetVersion())
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s version %d: answer: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	if again := resp.AppendTo(nil); len(again) != len(body) {
		return nil, fmt.Errorf("%s version %d: answer has %d bytes, its fields %d", kmsg.NameForKey(req.Key()), req.GetVersion(), len(body), len(again))
	}
	return resp, nil
}

// frame reads one response and gives what follows the correlation id.
func (w *wire) frame(correlation int32) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(w, size[:]); err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return nil, err
		}
		return nil, errClosed
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w, body); err != nil {
		return nil, err
	}
	if got := int32(binary.BigEndian.Uint32(body)); got != correlation {
		return nil, fmt.Errorf("correlation id %d, want %d", got, correlation)
	}
	return body[4:], nil
}

// do sends a request and reads its answer.
func (w *wire) do(req kmsg.Request) (kmsg.Response, error) {
	if err := w.send(req); err != nil {
		return nil, err
	}
	return w.receive(req, w.correlation)
}

// ask is do in a version, which must be answered.
func ask[R kmsg.Response](t testing.TB, w *wire, req interface {
	kmsg.Request
	ResponseKind() kmsg.Response
}, version int16,
) R {
	t.Helper()
	req.SetVersion(version)
	resp, err := w.do(req)
	require.NoError(t, err, "%s version %d", kmsg.NameForKey(req.Key()), version)
	return resp.(R)
}
