package edge

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// handlerFunc is a Handler that is a function.
type handlerFunc func(ctx context.Context, req *Request) func() Reply

func (f handlerFunc) Start(ctx context.Context, req *Request) func() Reply { return f(ctx, req) }

// echo answers every request with its body.
var echo = handlerFunc(func(_ context.Context, req *Request) func() Reply {
	body := append([]byte(nil), req.Body...)
	return func() Reply { return Reply{Head: body} }
})

// pipes is a listener in memory, so that tests can run under synctest.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 9092} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// start runs a server over pipes until stop is called.
func start(t *testing.T, cfg Config) (s *Server, p *pipes, stop func()) {
	t.Helper()
	p = newPipes()
	cfg.Listeners = []Listener{{Name: "test", Socket: p, PortIndex: 3}}
	s, err := New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	return s, p, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// startTCP runs a server on a loopback port.
func startTCP(t *testing.T, cfg Config) (s *Server, addr string) {
	t.Helper()
	if cfg.Listeners == nil {
		cfg.Listeners = []Listener{{Name: "test", Address: "127.0.0.1:0"}}
	}
	s, err := New(cfg)
	require.NoError(t, err)
	require.NoError(t, s.Listen(t.Context()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return s, s.Addrs()[0].String()
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c
}

// The keys used with opaque bodies: version 0 or another without flexible headers.
const (
	produce  int16 = 0
	fetch    int16 = 1
	metadata int16 = 3
)

// request encodes a frame with an opaque body. Versions are ones with plain headers.
func request(key int16, correlation int32, body string) []byte {
	version := map[int16]int16{produce: 3, fetch: 4, metadata: 0}[key]
	p := binary.BigEndian.AppendUint32(nil, uint32(4+4+2+2+len(body)))
	p = binary.BigEndian.AppendUint16(p, uint16(key))
	p = binary.BigEndian.AppendUint16(p, uint16(version))
	p = binary.BigEndian.AppendUint32(p, uint32(correlation))
	p = binary.BigEndian.AppendUint16(p, 2)
	p = append(p, "me"...)
	return append(p, body...)
}

func write(t *testing.T, c net.Conn, p []byte) {
	t.Helper()
	_, err := c.Write(p)
	require.NoError(t, err)
}

// readResponse reads one response with a plain header.
func readResponse(c net.Conn) (correlation int32, body string, err error) {
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return 0, "", err
	}
	p := make([]byte, binary.BigEndian.Uint32(head[:])-4)
	_, err = io.ReadFull(c, p)
	return int32(binary.BigEndian.Uint32(head[4:])), string(p), err
}

func requireResponse(t *testing.T, c net.Conn, correlation int32, body string) {
	t.Helper()
	gotCorrelation, gotBody, err := readResponse(c)
	require.NoError(t, err)
	require.Equal(t, correlation, gotCorrelation)
	require.Equal(t, body, gotBody)
}

func requireClosed(t *testing.T, c net.Conn) {
	t.Helper()
	_, err := c.Read(make([]byte, 1))
	require.True(t, errors.Is(err, io.EOF) || err != nil && !errors.Is(err, errTimeout(err)), "got %v", err)
}

// errTimeout gives err if it is a time-out, so that a connection left open is not taken for a closed one.
func errTimeout(err error) error {
	var n net.Error
	if errors.As(err, &n) && n.Timeout() {
		return err
	}
	return errors.New("no time-out")
}

func TestServer_AnswersWithHeaders(t *testing.T) {
	requests := make(chan Request, 1)
	_, addr := startTCP(t, Config{Handler: handlerFunc(func(_ context.Context, req *Request) func() Reply {
		requests <- Request{ClientID: req.ClientID, Client: req.Client}
		return func() Reply {
			return Reply{Head: []byte("head"), Tail: net.Buffers{[]byte("one"), []byte("two")}}
		}
	})})
	c := dial(t, addr)

	write(t, c, request(metadata, 7, "body"))
	requireResponse(t, c, 7, "headonetwo")
	got := <-requests
	require.Equal(t, "me", got.ClientID)
	require.Equal(t, "127.0.0.1", got.Client.Host)
	require.Equal(t, "User:ANONYMOUS", got.Client.Principal)
	require.Equal(t, "test", got.Client.Listener)

	// a flexible version has tagged fields in both headers
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("it"))
	flexible := kmsg.NewPtrMetadataRequest()
	flexible.SetVersion(9)
	write(t, c, formatter.AppendRequest(nil, flexible, 8))
	requireResponse(t, c, 8, "\x00headonetwo")
	require.Equal(t, "it", (<-requests).ClientID)

	formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("caf\xe9"))
	write(t, c, formatter.AppendRequest(nil, flexible, 10))
	requireResponse(t, c, 10, "\x00headonetwo")
	require.Equal(t, "caf\uFFFD", (<-requests).ClientID, "no text")

	// ApiVersions never has them in its response
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.SetVersion(3)
	write(t, c, formatter.AppendRequest(nil, versions, 9))
	requireResponse(t, c, 9, "headonetwo")
}

// A handler gets every client id whole. A connection keeps the last one of at most maxKeptID bytes.
func TestServer_KeepsNoLongClientID(t *testing.T) {
	ids := make(chan string, 1)
	s, addr := startTCP(t, Config{Handler: handlerFunc(func(_ context.Context, req *Request) func() Reply {
		ids <- req.ClientID
		return func() Reply { return Reply{} }
	})})
	c := dial(t, addr)
	send := func(id string) (kept string) {
		t.Helper()
		versions := kmsg.NewPtrApiVersionsRequest()
		write(t, c, kmsg.NewRequestFormatter(kmsg.FormatterClientID(id)).AppendRequest(nil, versions, 1))
		requireResponse(t, c, 1, "")
		require.Equal(t, id, <-ids)
		return *s.connections()[0].clientID.Load()
	}
	longest := strings.Repeat("i", maxKeptID)
	require.Equal(t, longest, send(longest))
	require.Equal(t, longest, send(longest+"i"))
	require.Equal(t, "me", send("me"))
}
