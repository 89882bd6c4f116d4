package edge

import (
	"context"
	"io"
	"net"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzServer: whatever a client sends, the server neither panics nor keeps its memory, and ends the connection when
// the client does.
func FuzzServer(f *testing.F) {
	f.Add(request(metadata, 1, "body"))
	f.Add(append(request(produce, 1, "one"), request(fetch, 2, "two")...))
	f.Add(half(1<<20, 1000))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.SetVersion(4)
	f.Add(kmsg.NewRequestFormatter(kmsg.FormatterClientID("x")).AppendRequest(nil, versions, 3))

	p := newPipes()
	s, err := New(Config{Handler: echo, Listeners: []Listener{{Socket: p}}})
	if err != nil {
		f.Fatal(err)
	}
	base, cancel := context.WithCancel(context.Background())
	f.Cleanup(cancel)
	f.Fuzz(func(t *testing.T, input []byte) {
		client, server := net.Pipe()
		c := s.newConn(base, server, Listener{})
		go func() {
			_, _ = client.Write(input)
			_ = client.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, client) }()
		c.serve()
		if used := s.produce.used.Load() + s.others.used.Load(); used != 0 {
			t.Fatalf("%d bytes are still held", used)
		}
	})
}
