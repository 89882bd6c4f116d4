package edge

import (
	"context"
	"io"
	"net"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkServer_Produce takes frames of some size over loopback and answers them; B/s is of one connection.
func BenchmarkServer_Produce(b *testing.B) {
	for _, size := range []int{16 << 10, 100 << 10, 1 << 20} {
		b.Run(strconv.Itoa(size>>10)+"KiB", func(b *testing.B) {
			c := benchServer(b, handlerFunc(func(_ context.Context, req *Request) func() Reply {
				req.Release()
				return func() Reply { return Reply{Head: make([]byte, 50)} }
			}))
			frame := request(produce, 1, string(make([]byte, size)))
			b.SetBytes(int64(size))
			b.ReportAllocs()
			done := make(chan error)
			go func() {
				_, err := io.Copy(io.Discard, c)
				done <- err
			}()
			for b.Loop() {
				if _, err := c.Write(frame); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, c.(*net.TCPConn).CloseWrite())
			require.NoError(b, <-done)
		})
	}
}

// BenchmarkServer_Fetch answers with 1 MiB in pieces of 100 KiB.
func BenchmarkServer_Fetch(b *testing.B) {
	var tail net.Buffers
	for range 10 {
		tail = append(tail, make([]byte, 100<<10))
	}
	c := benchServer(b, handlerFunc(func(context.Context, *Request) func() Reply {
		return func() Reply { return Reply{Head: make([]byte, 500), Tail: tail} }
	}))
	frame := request(fetch, 1, "x")
	b.SetBytes(1000 << 10)
	b.ReportAllocs()
	p := make([]byte, 1<<20)
	for b.Loop() {
		if _, err := c.Write(frame); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, p[:8+500+1000<<10]); err != nil {
			b.Fatal(err)
		}
	}
}

func benchServer(b *testing.B, h Handler) net.Conn {
	b.Helper()
	s, err := New(Config{Handler: h, Listeners: []Listener{{Address: "127.0.0.1:0"}}})
	require.NoError(b, err)
	require.NoError(b, s.Listen(b.Context()))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	c, err := net.Dial("tcp", s.Addrs()[0].String())
	require.NoError(b, err)
	b.Cleanup(func() {
		_ = c.Close()
		cancel()
		require.NoError(b, <-done)
	})
	return c
}
