package verify

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// faulty stands between clients and brokers and plants a fault: it decodes every request and answer. One request of a
// connection is under way at a time.
type faulty struct {
	t *testing.T

	mu sync.Mutex // held while a fault is asked
	// request may change a request; an answer is given instead of the broker's. drop ends the connection: before the
	// request reaches the broker if an answer is given, else after its answer.
	request func(req kmsg.Request) (answer kmsg.Response, drop bool)
	// again tells whether the broker gets a request once more before; its first answer goes to nobody.
	again func(req kmsg.Request) bool
	// answer may change the broker's answer.
	answer func(req kmsg.Request, resp kmsg.Response)

	pumps sync.WaitGroup
}

// dial connects to a broker through the fault.
func (f *faulty) dial(ctx context.Context, network, address string) (net.Conn, error) {
	broker, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	client, here := net.Pipe()
	f.pumps.Go(func() {
		defer broker.Close()
		defer here.Close()
		if err := f.pump(here, broker); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) &&
			!errors.Is(err, net.ErrClosed) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, errDropped) {
			f.t.Log("faulty:", err)
		}
	})
	return client, nil
}

var errDropped = errors.New("the connection was dropped on purpose")

func (f *faulty) pump(client, broker net.Conn) error {
	for {
		frame, err := readFrame(client)
		if err != nil {
			return err
		}
		head, req, err := decodeRequest(frame)
		if err != nil {
			return err
		}
		given, twice, drop := f.plan(req)
		if given == nil {
			if given, err = f.forward(broker, head, req, twice); err != nil {
				return err
			}
			f.change(req, given)
		}
		if drop {
			return errDropped
		}
		if err := writeFrame(client, encodeAnswer(head, given)); err != nil {
			return err
		}
	}
}

func (f *faulty) plan(req kmsg.Request) (given kmsg.Response, twice, drop bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.request != nil {
		given, drop = f.request(req)
	}
	if f.again != nil {
		twice = f.again(req)
	}
	return given, twice, drop
}

func (f *faulty) change(req kmsg.Request, resp kmsg.Response) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.answer != nil {
		f.answer(req, resp)
	}
}

func (f *faulty) forward(broker net.Conn, head []byte, req kmsg.Request, twice bool) (kmsg.Response, error) {
	times := 1
	if twice {
		times = 2
	}
	var resp kmsg.Response
	for range times {
		if err := writeFrame(broker, req.AppendTo(append([]byte(nil), head...))); err != nil {
			return nil, err
		}
		frame, err := readFrame(broker)
		if err != nil {
			return nil, err
		}
		resp = req.ResponseKind()
		body := frame[4:]
		if resp.IsFlexible() && resp.Key() != apiVersions {
			body = body[1:] // no tags
		}
		if err := resp.ReadFrom(body); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

const apiVersions = 18

// decodeRequest gives a request and its header's bytes.
func decodeRequest(frame []byte) (head []byte, req kmsg.Request, err error) {
	req = kmsg.RequestForKey(int16(binary.BigEndian.Uint16(frame)))
	if req == nil {
		return nil, nil, errors.New("unknown request")
	}
	req.SetVersion(int16(binary.BigEndian.Uint16(frame[2:])))
	n := 10 // key, version, correlation id, length of the client id
	if id := int16(binary.BigEndian.Uint16(frame[8:])); id > 0 {
		n += int(id)
	}
	if req.IsFlexible() {
		n++ // no tags
	}
	return frame[:n], req, req.ReadFrom(frame[n:])
}

func encodeAnswer(head []byte, resp kmsg.Response) []byte {
	frame := append([]byte(nil), head[4:8]...) // correlation id
	if resp.IsFlexible() && resp.Key() != apiVersions {
		frame = append(frame, 0)
	}
	return resp.AppendTo(frame)
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, frame)
	return frame, err
}

func writeFrame(w io.Writer, frame []byte) error {
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}
